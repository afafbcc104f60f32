"""A keyed running aggregate for the simulator: the operator that cannot answer before its state is there.

Each row makes a result: how many rows its key has had, and their sum. Counted per key the results are 1, 2, 3, ...,
whoever makes them and in whichever order rows of different devices come: so the oracle sees what is lost, made twice,
or put out out of order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import GENERATION, QUERY, Operator, StateSpec
from godwit.sim.operators import Row, value


@dataclass(frozen=True)
class SimRunning(Operator):
    """count(*), sum(value) by key, after each row."""

    inputs: tuple[int, ...]
    key: str
    value: str
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "dual"
    output: ClassVar[Literal["append", "upsert"]] = "upsert"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec((self.key,), None, retention="forever"),)


def as_state(operator: SimRunning, row: Row) -> Row:
    """What a row adds to the state."""
    kept = {QUERY: row[QUERY], operator.key: value(operator.key, row), "n": 1, "s": value(operator.value, row)}
    return {**kept, GENERATION: row.get(GENERATION, 0)}


def run(operator: SimRunning, state: list[Row], rows: Iterable[Row]) -> list[Row]:
    """The results of some rows, one after the other; the state takes them in."""
    made = []
    for row in rows:
        state.append(as_state(operator, row))
        mine = [s for s in state if (s[QUERY], s[operator.key]) == (row[QUERY], row[operator.key])]
        made.append({QUERY: row[QUERY], "k": row[operator.key], **{name: sum(s[name] for s in mine) for name in "ns"}})
    return made
