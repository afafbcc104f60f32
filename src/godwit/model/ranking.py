"""Plan nodes that rank rows: within windows that are final, and the best few rows of a key among all so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import Operator, StateSpec, pretty


@dataclass(frozen=True)
class RankCall:
    """A function over the rows of a partition: its SQL, and the order of rows ("`n` DESC NULLS LAST") it follows."""

    name: str
    function: str
    order: tuple[str, ...] = ()

    def describe(self) -> str:
        return f"{pretty(self.function)}{' by ' if self.order else ''}{pretty(', '.join(self.order))}".replace("`", "")


@dataclass(frozen=True)
class Ranked(Operator):
    """Functions over the rows of one key and one time, when the watermark has passed it: no row can join them then.

    Output: all columns of the input and one column a call.
    """

    inputs: tuple[int, ...]
    columns: tuple[str, ...]
    #: the time is one of them
    keys: tuple[str, ...]
    time: str
    calls: tuple[RankCall, ...]
    lag_us: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    # It answers behind the watermark, which is held until its state has come.
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec(tuple(f"`{key}`" for key in self.keys), self.time, self.lag_us),)

    @property
    def reach_us(self) -> int | None:
        return self.lag_us + 1

    @property
    def keeps(self) -> str:
        return "rows until the watermark passes them"

    def describe(self) -> str:
        calls = ", ".join(call.describe() for call in self.calls)
        return f"Rank {calls} within {', '.join(map(pretty, self.keys))}"


@dataclass(frozen=True)
class TopRows(Operator):
    """The first `limit` rows of each key in an order, as they are now: a better row moves the others down.

    Output: all columns of the input, the place of the row (from 1 on), and which row is newer. The key of a row is its
    partition and its place; of one row a key, its partition.
    """

    inputs: tuple[int, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    #: terms such as "`n` DESC NULLS LAST"; rows that are equal in all of them are alike
    order: tuple[str, ...]
    limit: int
    #: the column with the place
    place: str
    time: str
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    #: before its state is there, it would put rows in front that are not the best
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "dual"

    @property
    def output(self) -> Literal["append", "upsert"]:
        return "upsert"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec(tuple(f"`{key}`" for key in self.keys), None, retention="forever"),)

    @property
    def keeps(self) -> str:
        return f"the first {self.limit} rows of each key, for ever" if self.limit > 1 else "one row per key, for ever"

    def describe(self) -> str:
        by = ", ".join(map(pretty, self.keys)) or "nothing"
        return f"First {self.limit} by {pretty(', '.join(self.order))} of each {by}".replace("`", "")
