"""GROUP BY a day, an hour, .. of the time column: keys that say in which stretch of time a row lies.

    date_trunc('HOUR', ts)   to_date(ts)   CAST(ts AS DATE)   date_format(ts, 'yyyy-MM-dd HH:mm')
    to_date(from_utc_timestamp(ts, 'Europe/Berlin') - INTERVAL 4 HOURS)     a day in Berlin that begins at 04:00

The key stays a key: Spark reads the query as it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from godwit.model.plan import Window
from godwit.sql.duration import interval
from godwit.sql.fault import SqlFault

_DAY = 86_400_000_000
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": _DAY,
    "dd": _DAY,
    "week": 7 * _DAY,
}
#: 1970 began on a Thursday, weeks do on Mondays
_MONDAY = 4 * _DAY
#: letters of date_format from coarse to fine, with the length of what the last one tells apart
_LETTERS = {"y": 0, "M": 0, "d": _DAY, "H": _UNITS["hour"], "m": _UNITS["minute"], "s": _UNITS["second"]}


@dataclass(frozen=True)
class _Local:
    """The time column, moved by a zone and a length of time."""

    time: str
    zone: str = ""
    moved_us: int = 0


def calendar_window(key: exp.Expr, times: frozenset[str]) -> Window | None:
    """The window that a key stands for; None: it stands for none. `times`: the time columns."""
    found = _read(key)
    if found is None:
        return None
    value, size, offset = found
    local = _local(value, times)
    if local is None:
        return None
    if local.zone and size % _DAY:
        msg = f"parts of a day are cut in UTC, not in {local.zone}, where an hour may come twice"
        raise SqlFault(msg, key, "use window(ts, '1 hour'), or whole days of the zone")
    return Window(local.time, size, size, offset_us=(offset - local.moved_us) % size, zone=local.zone)


def is_start(key: exp.Expr, window: Window) -> bool:
    """Whether the key is when the window begins."""
    return _name(key) == "date_trunc" and isinstance(key.expressions[1], exp.Column) and not window.zone


def _read(key: exp.Expr) -> tuple[exp.Expr, int, int] | None:
    """(what is cut, the windows' length, where they begin)"""
    if isinstance(key, exp.Cast) and key.to.this == exp.DType.DATE:
        return key.this, _DAY, 0
    name, given = _name(key), key.expressions if isinstance(key, exp.Anonymous) else []
    if name in ("to_date", "date") and len(given) == 1:
        return given[0], _DAY, 0
    if name == "date_trunc" and len(given) == 2 and given[0].name.lower() in _UNITS:
        unit = given[0].name.lower()
        return given[1], _UNITS[unit], _MONDAY if unit == "week" else 0
    if name == "date_format" and len(given) == 2 and isinstance(given[1], exp.Literal):
        size = _told_apart(given[1].name)
        return None if size is None else (given[0], size, 0)
    return None


def _told_apart(pattern: str) -> int | None:
    """How long a stretch of time has one text; None: other times have the same."""
    letters = set(re.sub(r"'[^']*'|[^A-Za-z]", "", pattern))
    known = [letter for letter in _LETTERS if letter in letters]
    if letters - set(_LETTERS) or known != list(_LETTERS)[: len(known)] or len(known) < 3:
        return None
    return _LETTERS[known[-1]]


def _local(node: exp.Expr, times: frozenset[str]) -> _Local | None:
    match node:
        case exp.Paren():
            return _local(node.this, times)
        case exp.Column() if node.name in times:
            return _Local(node.name)
        case exp.Add() | exp.Sub():
            below, length = _local(node.left, times), interval(node.right)
            if below is None or length is None:
                return None
            return _Local(below.time, below.zone, below.moved_us + (length if isinstance(node, exp.Add) else -length))
        case exp.Anonymous() if _name(node) == "from_utc_timestamp" and len(node.expressions) == 2:
            value, zone = node.expressions
            if isinstance(value, exp.Column) and value.name in times and isinstance(zone, exp.Literal):
                return _Local(value.name, zone.name)
    return None


def _name(node: exp.Expr) -> str:
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""
