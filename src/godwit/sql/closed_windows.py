"""The batch form of a query, as of a watermark: only windows that have closed by then."""

from __future__ import annotations

from sqlglot import exp

from godwit.sql.dialect import parse, text
from godwit.sql.normalise import is_window


def closed_by(sql: str, watermark_us: int) -> str | None:
    """The text with only those windows that end by the watermark; None: it does not have exactly one window."""
    (statement,) = parse(sql)
    assert statement is not None
    groups = [group for group in statement.find_all(exp.Group) if any(is_window(item) for item in group.expressions)]
    if len(groups) != 1 or any(item.name.lower() == "session_window" for item in groups[0].expressions):
        return None
    select = groups[0].parent
    assert isinstance(select, exp.Select)
    (ends,) = parse(f"SELECT window.end <= timestamp_micros({watermark_us})")
    assert isinstance(ends, exp.Select)
    condition, having = ends.expressions[0], select.args.get("having")
    both = condition if having is None else exp.and_(having.this, condition)
    select.set("having", exp.Having(this=both))
    return text(statement)
