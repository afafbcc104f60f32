"""The names users give to things, checked once, at the border: whatever is inside has a name that is usable.

Names end up in file paths (`regions/<region>/source/<stream>`), in ids (`query/operator@device`, `feeder|device`) and
in SQL. So each kind of thing has one rule, and a name that breaks it is refused in one sentence that says which
character is at fault and what to do:

    any name          text of 1 to 120 characters, without control characters, without a space at either end,
                      not `.` or `..`, not beginning with `__` or `query:` (reserved)
    device, site      none of  / \\ @ |
    query, region,    none of  / \\ @ | : # ~ * ? " < > `
    sink, feeder
    stream, column    an SQL identifier: a letter or `_`, then letters, digits and `_`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Literal

from godwit.errors import ConfigError, GodwitError

Kind = Literal["query", "stream", "column", "device", "site", "region", "sink", "feeder"]

LONGEST = 120
#: what the program itself calls things: the device that a derived stream's query is, and its own columns
RESERVED = ("query:", "__")

_IDS = "/\\@|"
_PATHS = _IDS + ':#~*?"<>`'
_FORBIDDEN: dict[Kind, str] = {
    "device": _IDS,
    "site": _IDS,
    "query": _PATHS,
    "region": _PATHS,
    "sink": _PATHS,
    "feeder": _PATHS,
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: the ordinary case, in one look: topologies have 100,000 names
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,119}")


def check(kind: Kind, name: object, error: type[GodwitError] = ConfigError) -> str:
    """The name itself, if a user may give it to a thing of this kind; otherwise the error says why not."""
    problem = reserved(kind, name) or fault(kind, name)
    if problem is not None:
        raise error(problem)
    assert isinstance(name, str)
    return name


def fault(kind: Kind, name: object) -> str | None:
    """Why nothing of this kind can have this name, in one sentence with the remedy; None if it can."""
    identifier = kind in ("stream", "column")
    if not isinstance(name, str):
        return _none(kind) if name is None else f"a {kind} is named by text, not by {name!r}; write '{name!s}'"
    if not identifier and _PLAIN.fullmatch(name):
        return None
    return next(_problems(kind, name, f"{kind} '{_shown(name)}'", identifier), None)


def reserved(kind: Kind, name: object) -> str | None:
    """Why a user cannot choose this name, though the program can."""
    beginning = next((r for r in RESERVED if isinstance(name, str) and name.startswith(r)), None)
    if beginning is None:
        return None
    return f"{kind} '{_shown(str(name))}': names that begin with '{beginning}' are reserved; choose another beginning"


def _problems(kind: Kind, name: str, shown: str, identifier: bool) -> Iterator[str]:
    if not name:
        yield _none(kind)
    if len(name.removeprefix(RESERVED[0])) > LONGEST:
        yield f"{shown} has {len(name)} characters; shorten it to {LONGEST}"
    odd = next((c for c in name if not c.isprintable()), None)
    if odd is not None:
        yield f"{shown} has the character {odd!a} in it, which cannot be printed; remove it"
    if name != name.strip():
        yield f"{shown} has a space at its beginning or end; remove it"
    if identifier:
        if not _IDENTIFIER.fullmatch(name):
            at = next((c for c in name if not re.match(r"[A-Za-z0-9_]", c)), name[:1])
            yield f"{shown} is not an SQL identifier because of '{at}'; use letters, digits and _, and no digit first"
        return
    if name in (".", ".."):
        yield f"{shown} would be a folder's path; choose a name with a letter or digit in it"
    bad = next((c for c in name if c in _FORBIDDEN[kind]), None)
    if bad is not None:
        yield f"{shown} has the character '{bad}' in it; a {kind} has none of {' '.join(_FORBIDDEN[kind])}; use '-'"


def identifiers(kind: Kind, names: Iterable[str], error: type[GodwitError] = ConfigError) -> None:
    """Names that stand side by side in SQL: each usable, no two the same to Spark, which ignores case."""
    seen: dict[str, str] = {}
    for name in names:
        check(kind, name, error)
        if name.lower() in seen:
            other = seen[name.lower()]
            same = "twice" if other == name else f"beside '{other}', which is the same name to SQL"
            msg = f"{kind} '{name}' is declared {same}; choose another name for one of them"
            raise error(msg)
        seen[name.lower()] = name


def hint(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """The remedy for a name that does not exist: the nearest that does. `otherwise`: if none is near."""
    names = {n.lower(): n for n in reversed([str(n) for n in known])}
    if near := get_close_matches(name.lower(), names, n=1):
        return f"did you mean '{names[near[0]]}'?"
    return otherwise or f"there are {', '.join(reversed(names.values()))}"


def _none(kind: Kind) -> str:
    return f"a {kind} needs a name; give it one of 1 to {LONGEST} characters"


def _shown(name: str) -> str:
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
    return plain if len(plain) <= 40 else f"{plain[:37]}..."
