"""What the operators do to rows, in plain Python: rows are dicts, expressions are small enough for Python's `eval`.

The stateful ones follow the runtime's rules to the letter: what is late, which generations meet, what closes when.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from godwit.model.keys import Key
from godwit.model.plan import (
    CLASS,
    GENERATION,
    QUERY,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    AggregateCall,
    Join,
    Operator,
    Partial,
    Window,
)
from godwit.protocol.watermarks import NEVER

Row = dict[str, Any]


@lru_cache(maxsize=1000)
def _code(expression: str) -> CodeType:
    return compile(expression, expression, "eval")


def value(expression: str, row: Mapping[str, Any]) -> Any:
    return eval(_code(expression), {"__builtins__": {}}, row)


def windows(window: Window, at: int) -> Iterable[tuple[int, int]]:
    """The windows that a moment belongs to, as (start, end)."""
    if window.gap_us:
        yield at, at + window.gap_us
        return
    start = at - at % window.slide_us
    while start + window.size_us > at:
        yield start, start + window.size_us
        start -= window.slide_us


def partial(operator: Partial, rows: Iterable[Row]) -> list[Row]:
    """Partial aggregates of one micro-batch, one for each (query, class, key, window)."""
    made: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        keys = {key.name: value(key.sql, row) for key in operator.keys}
        for start, end in windows(operator.window, row[operator.window.time]):
            one = {QUERY: row[QUERY], CLASS: row.get(CLASS, 0), **keys, WINDOW_START: start, WINDOW_END: end}
            add(made, one, {c.name: 1 if c.argument is None else value(c.argument, row) for c in operator.aggregates})
    return list(made.values())


def add(made: dict[tuple[Any, ...], Row], one: Row, numbers: Mapping[str, int]) -> None:
    known = made.setdefault(tuple(one.values()), {**one, **dict.fromkeys(numbers, 0)})
    for name, number in numbers.items():
        known[name] += number


def merge(operator: Aggregate, partials: Iterable[Row]) -> list[Row]:
    """Partials with equal query, keys and bounds become one; of sessions, those whose intervals overlap."""
    if operator.window.gap_us:
        return _merge_sessions(operator, partials)
    made: dict[tuple[Any, ...], Row] = {}
    for row in partials:
        one = {name: row[name] for name in (QUERY, *operator.keys, WINDOW_START, WINDOW_END)}
        add(made, one, _numbers(operator.aggregates, row))
    return list(made.values())


def _merge_sessions(operator: Aggregate, partials: Iterable[Row]) -> list[Row]:
    by = (QUERY, *operator.keys)
    made: list[Row] = []
    for row in sorted(partials, key=lambda r: (*(r[name] for name in by), r[WINDOW_START], r[WINDOW_END])):
        last = made[-1] if made else None
        if last is not None and all(last[n] == row[n] for n in by) and row[WINDOW_START] < last[WINDOW_END]:
            last[WINDOW_END] = max(last[WINDOW_END], row[WINDOW_END])
            for name, number in _numbers(operator.aggregates, row).items():
                last[name] += number
        else:
            made.append({n: row[n] for n in (*by, WINDOW_START, WINDOW_END)} | _numbers(operator.aggregates, row))
    return made


def _numbers(calls: Iterable[AggregateCall], row: Row) -> dict[str, int]:
    return {call.name: row[call.name] for call in calls}


@lru_cache(maxsize=100)
def _plain(condition: str) -> str:
    """What SQL says of two times, of numbers of microseconds."""
    return re.sub(r"INTERVAL '(\d+)' MICROSECOND", r"\1", condition).replace(" AND ", " and ")


#: of a row of a join's state: what was made ahead of it, if anything was (`plan_versions.py`)
SEEN = "__seen"


def pairs(operator: Join, left: Iterable[Row], right: Iterable[Row]) -> list[Row]:
    """Rows that belong together, of the same query and generation."""
    found = []
    right = list(right)
    for a in left:
        for b in right:
            if a[QUERY] != b[QUERY] or a[GENERATION] != b[GENERATION]:
                continue
            apart = b[operator.right_time] - a[operator.left_time]
            keys = all(value(x, a) == value(y, b) for x, y in operator.keys)
            if not keys or not operator.lower_us <= apart <= operator.upper_us:
                continue
            made = {**a, **b, CLASS: min(a[CLASS], b[CLASS])}
            if operator.residual is None or value(_plain(operator.residual), made):
                found.append({k: v for k, v in made.items() if k not in (GENERATION, SEEN)})
    return found


def key_of(operator: Operator, side: int, row: Row) -> Key:
    """The key of a row at an input of a stateful operator, in text form."""
    return tuple(str(value(sql.strip("`"), row)) for sql in operator.state[side].keys)


def bound(clock: int, lag_us: int) -> int:
    return clock if clock == NEVER else clock - lag_us
