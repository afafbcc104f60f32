"""The best rows of each key for the simulator, put out as changes: a better row moves the others down.

A change says how many rows its key had been sent by then, as far as it was counted: a micro-batch none of whose rows is
among the best is not. Whoever reads the changes keeps, of each place, the one with the highest count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import GENERATION, QUERY, Operator, StateSpec
from godwit.sim.operators import Row

SEEN = "seen"


@dataclass(frozen=True)
class SimTop(Operator):
    """row_number() OVER (PARTITION BY key ORDER BY value DESC) <= limit, as it is now"""

    inputs: tuple[int, ...]
    key: str
    value: str
    limit: int
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "dual"
    output: ClassVar[Literal["append", "upsert"]] = "upsert"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec((self.key,), None, retention="forever"),)


def taken_in(operator: SimTop, state: list[Row], came: Iterable[Row]) -> None:
    """State that came. Rows that were sent to both are not counted yet; what comes of them the source has told."""
    came = list(came)
    state.extend(row for row in came if SEEN in row)
    run(operator, state, [row for row in came if SEEN not in row])


def run(operator: SimTop, state: list[Row], rows: Iterable[Row]) -> list[Row]:
    """The changes that a micro-batch makes; those of its rows that are among the best become state."""
    by: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        by.setdefault((row[QUERY], row[operator.key]), []).append(row)
    made: list[Row] = []
    for key, fresh in by.items():
        old = _best(operator, [row for row in state if (row[QUERY], row[operator.key]) == key])
        seen = counted(old, fresh)
        new = [{**row, SEEN: seen} for row in fresh]
        now = _best(operator, [*old, *new])
        moved = ((place, row) for place, row in enumerate(now, 1) if place > len(old) or old[place - 1] is not row)
        made += [
            {QUERY: key[0], "k": key[1], "place": place, "v": row[operator.value], "n": seen} for place, row in moved
        ]
        state.extend(row for row in now if any(row is one for one in new))
    _compact(operator, state)
    return made


def counted(old: Iterable[Row], fresh: list[Row]) -> int:
    """How many rows a key has been sent."""
    return max((int(row[SEEN]) for row in old), default=0) + len(fresh)


def _best(operator: SimTop, rows: Iterable[Row]) -> list[Row]:
    """Those that are equal stay as they are."""
    return sorted(rows, key=lambda row: -int(row[operator.value]))[: operator.limit]


def _compact(operator: SimTop, state: list[Row]) -> None:
    """Rows that others of their generation have moved out go."""
    by: dict[tuple[object, ...], list[Row]] = {}
    for row in state:
        by.setdefault((row[QUERY], row[operator.key], row[GENERATION]), []).append(row)
    state[:] = [row for rows in by.values() for row in _best(operator, rows)]
