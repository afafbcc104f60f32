"""What is asked of a query beside its text (`emit`, `order`), as hints in it."""

from __future__ import annotations

from godwit.errors import ConfigError
from godwit.sql.fluent import Builder
from godwit.sql.keep import with_hint


def hinted(sql: object, emit: str = "final", order: str = "device") -> str:
    """The text of a query (or of one that is built up) with hints for what else was asked for."""
    text = sql.sql() if isinstance(sql, Builder) else sql
    if not isinstance(text, str):
        msg = f"a query is SQL as text, not {type(sql).__name__}; give it as 'SELECT ..', or build it with godwit.sql"
        raise ConfigError(msg)
    for name, given, known in (("emit", emit, ("final", "changes")), ("order", order, ("device", "none"))):
        if given not in known:
            msg = f"{name}={given!r} is unknown; choose {' or '.join(map(repr, known))}"
            raise ConfigError(msg)
    if emit == "changes":
        return with_hint(text, "emit('changes')")
    return with_hint(text, "order('none')") if order == "none" else text
