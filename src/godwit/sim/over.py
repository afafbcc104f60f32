"""A window function for the simulator: rows wait for the watermark, and are answered in the order of their time.

Each row is answered with its number among those of its key, their sum so far, and the value before it. Of the rows that
were answered the last one of each key is kept, with what number and sum had come to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.ids import QueryId
from godwit.model.plan import GENERATION, QUERY, Operator, StateSpec
from godwit.protocol.watermarks import NEVER
from godwit.sim.operators import Row


@dataclass(frozen=True)
class SimOver(Operator):
    """row_number(), sum(value), lag(value) OVER (PARTITION BY key ORDER BY time, value)"""

    inputs: tuple[int, ...]
    key: str
    time: str
    value: str
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    catches_up: ClassVar[bool] = True
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        """Rows that wait; the last answered one of each key."""
        return (
            StateSpec((self.key,), self.time),
            StateSpec((self.key,), self.time, retention="forever", replaced=True),
        )


def run(operator: SimOver, waiting: list[Row], kept: list[Row], watermarks: Mapping[QueryId, int]) -> list[Row]:
    """The answers of the rows that the watermark has passed."""
    due = [row for row in waiting if row[operator.time] < watermarks.get(row[QUERY], NEVER)]
    _remove(waiting, due)
    return _answers(operator, due, kept)


def taken_in(
    operator: SimOver, waiting: list[Row], kept: list[Row], came: list[Row], done: int, here: int, replayed: bool
) -> list[Row]:
    """Rows that came with the state of their keys. The source has answered those before `done`: if they are `replayed`,
    what is kept of them is not here yet. Those that the watermark has passed `here` are answered now."""
    if not replayed:
        came = [row for row in came if row[operator.time] >= done]
    waiting.extend(row for row in came if row[operator.time] >= here)
    made = _answers(operator, [row for row in came if row[operator.time] < here], kept)
    return [row for row in made if row["ts"] >= done]


def _answers(operator: SimOver, rows: Iterable[Row], kept: list[Row]) -> list[Row]:
    made = []
    for row in sorted(rows, key=lambda r: (r[operator.time], r[operator.value])):
        mine = [k for k in kept if (k[QUERY], k[operator.key]) == (row[QUERY], row[operator.key])]
        first: Row = {"n": 0, "s": 0, operator.value: None}
        last = max(mine, key=lambda k: int(k["n"]), default=first)
        _remove(kept, [k for k in mine if k[GENERATION] <= row[GENERATION]])
        now = {**row, "n": last["n"] + 1, "s": last["s"] + row[operator.value]}
        kept.append(now)
        row_out = {QUERY: row[QUERY], "k": row[operator.key], "ts": row[operator.time], "n": now["n"], "s": now["s"]}
        made.append({**row_out, "before": last[operator.value]})
    return made


def _remove(rows: list[Row], gone: list[Row]) -> None:
    ids = set(map(id, gone))
    rows[:] = [row for row in rows if id(row) not in ids]
