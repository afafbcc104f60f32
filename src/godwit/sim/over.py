"""Window functions and ranks for the simulator: rows wait for the watermark, and are answered in the order of time.

A window function answers each row with its number among those of its key, their sum so far, the value before it and one
after it: as many rows as that lies ahead wait for it. Of the rows that were passed the last ones of each key are kept,
with what number and sum had come to. A rank is that among the rows of one key and one time, which are all there then.
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
    """row_number(), sum(value), lag(value), lead(value, ahead) OVER (PARTITION BY key ORDER BY time, value)"""

    inputs: tuple[int, ...]
    key: str
    time: str
    value: str
    #: how many rows after a row of its key must be final before it is answered
    ahead: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        """Rows that wait; the last ones of each key that were passed."""
        return (
            StateSpec((self.key,), self.time),
            StateSpec((self.key,), self.time, retention="forever", replaced=True),
        )


@dataclass(frozen=True)
class SimRanked(Operator):
    """row_number() OVER (PARTITION BY key, time ORDER BY value): the time is part of the key, as in the runtime."""

    inputs: tuple[int, ...]
    key: str
    time: str
    value: str
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec((self.key, self.time), self.time),)


def run(
    operator: SimOver | SimRanked, waiting: list[Row], kept: list[Row], watermarks: Mapping[QueryId, int]
) -> list[Row]:
    """The answers that the watermark makes by passing rows."""
    due = [row for row in waiting if row[operator.time] < watermarks.get(row[QUERY], NEVER)]
    _remove(waiting, due)
    return answers(operator, due, kept)


def taken_in(
    operator: SimOver | SimRanked,
    waiting: list[Row],
    kept: list[Row],
    came: list[Row],
    done: int,
    here: int,
    replayed: bool,
) -> list[Row]:
    """Rows that came with the state of their keys. The source has passed those before `done`: if they are `replayed`,
    what is kept of them is not here yet, and what is answered by them has been told. Those that the watermark has
    passed `here` are answered now."""
    if replayed:
        answers(operator, [row for row in came if row[operator.time] < done], kept)
    came = [row for row in came if row[operator.time] >= done]
    waiting.extend(row for row in came if row[operator.time] >= here)
    return answers(operator, [row for row in came if row[operator.time] < here], kept)


def answers(operator: SimOver | SimRanked, rows: Iterable[Row], kept: list[Row]) -> list[Row]:
    """What passing these rows answers; of window functions that look ahead, rows that were passed before."""
    if isinstance(operator, SimRanked):
        return _ranks(operator, rows)
    made = []
    for row in sorted(rows, key=lambda r: (r[operator.time], r[operator.value])):
        mine = [k for k in kept if (k[QUERY], k[operator.key]) == (row[QUERY], row[operator.key])]
        mine.sort(key=lambda k: int(k["n"]))
        first: Row = {"n": 0, "s": 0, operator.value: None}
        last = mine[-1] if mine else first
        now = {**row, "n": last["n"] + 1, "s": last["s"] + row[operator.value], "before": last[operator.value]}
        line = [*mine, now]
        _remove(kept, [k for k in line[: -operator.ahead - 1] if k[GENERATION] <= row[GENERATION]])
        kept.append(now)
        if now["n"] > operator.ahead:
            due = line[-operator.ahead - 1]
            told = {QUERY: row[QUERY], "k": row[operator.key], "ts": due[operator.time], "after": row[operator.value]}
            made.append({**told, **{name: due[name] for name in ("n", "s", "before")}})
    return made


def _ranks(operator: SimRanked, rows: Iterable[Row]) -> list[Row]:
    made, count = [], dict[tuple[object, ...], int]()
    for row in sorted(rows, key=lambda r: int(r[operator.value])):
        group = row[QUERY], row[operator.key], row[operator.time]
        count[group] = count.get(group, 0) + 1
        made.append({QUERY: row[QUERY], "k": group[1], "ts": group[2], "v": row[operator.value], "n": count[group]})
    return made


def _remove(rows: list[Row], gone: list[Row]) -> None:
    ids = set(map(id, gone))
    rows[:] = [row for row in rows if id(row) not in ids]
