"""Plan nodes of operators that answer row by row or change by change, without a time window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from godwit.model.plan import WINDOW_END, AggregateCall, Operator, StateSpec, Window, pretty, seconds
from godwit.model.values_kept import values_kept


@dataclass(frozen=True)
class RunningAggregate(Operator):
    """Keeps one total per key, and puts out the new one whenever rows of the key come in.

    `window`: one of fixed length, whose results are put out before they are final; unbounded; or a session whose gap is
    how long a key without rows is kept: then only the rows since the last such gap count. Output: key columns, bounds
    (the first and the last time), one column an aggregate, and which row is newer (`VERSION`) or means that there is
    none any more (`DELETED`).
    """

    inputs: tuple[int, ...]
    window: Window
    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    #: the aggregate that counts a key's rows: the newer of two totals has more
    count: str
    #: condition over the output: keys for which it does not hold have no row
    having: str | None = None
    lag_us: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    #: before its state is there, its totals would be too small
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "dual"

    @property
    def output(self) -> Literal["append", "upsert"]:
        return "upsert"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        keys = tuple(f"`{key}`" for key in self.keys)
        if self.window.kind == "unbounded":
            return (StateSpec(keys, None, retention="forever"),)
        if self.window.kind != "session":
            return (StateSpec(keys, WINDOW_END, self.lag_us),)
        return (StateSpec(keys, WINDOW_END, self.lag_us, "ttl", self.window.gap_us),)

    @property
    def keeps(self) -> str:
        values = values_kept(call.function for call in self.aggregates)
        if self.window.kind == "unbounded":
            return f"one total per key{values}, for ever"
        if self.window.kind != "session":
            return f"one total per key and window{values}, until the watermark passes the window's end"
        gap = seconds(self.window.gap_us + self.lag_us)
        return f"one total per key{values}, until the watermark is {gap} past its last row"

    def describe(self) -> str:
        calls = ", ".join(f"{a.function}({pretty(a.argument or '*')})" for a in self.aggregates)
        having = f" having {pretty(self.having)}" if self.having else ""
        cut = [] if self.window.kind in ("unbounded", "session") else [f"window({seconds(self.window.size_us)})"]
        return f"Running {calls} by {', '.join([*map(pretty, self.keys), *cut]) or 'nothing'}{having}"


@dataclass(frozen=True)
class OverCall:
    """One window function: over which rows before the current one it is computed."""

    name: str
    function: str
    #: a column of the input; None: rows are counted
    argument: str | None
    #: rows: the frame counts rows; range: it is a length of time (microseconds), and rows of one time are peers
    kind: Literal["rows", "range"]
    #: how far before the current row the frame begins (below 0: after it); None: with the first row of the key
    start: int | None
    #: how far before the current row it ends
    end: int = 0
    constants: tuple[str, ...] = ()

    def describe(self) -> str:
        what = f"{self.function}({pretty(self.argument or '*')})"
        if self.function == "row_number":
            return what
        if self.function in ("lag", "lead"):
            return f"{self.function}({pretty(self.argument or '')}, {abs(self.end)})"
        size = str if self.kind == "rows" else seconds
        first = "all" if self.start is None else size(self.start)
        if self.end < 0:
            return f"{what} rows {first} before to {-self.end} after"
        until = f" to {size(self.end)}" if self.end else ""
        return f"{what} {self.kind} {first}{until} before"


@dataclass(frozen=True)
class Over(Operator):
    """Window functions: rows wait until the watermark has passed them, and are answered in one total order.

    The order is by time, then by `ties`; rows that are equal in these are alike. Output: all columns of the input and
    one column a call.
    """

    inputs: tuple[int, ...]
    #: all columns of the input
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    time: str
    ties: tuple[str, ...]
    calls: tuple[OverCall, ...]
    lag_us: int = 0
    #: rows of a key that come longer than this after the one before them begin again; 0: they never do
    keep_us: int = 0
    looks_ahead: ClassVar[bool] = False
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    # It answers behind the watermark, which is held until its state has come: so nothing is answered without it.
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def rows_kept(self) -> int:
        """How many rows of a key must be known when the next ones are answered."""
        frames = [call.start or 0 for call in self.calls if call.kind == "rows"]
        return max([*frames, 1 if self.carried else 0], default=0) + self.ahead

    @property
    def ahead(self) -> int:
        """How many rows after a row of its key must be final before it can be answered."""
        return max((-call.end for call in self.calls), default=0) if self.looks_ahead else 0

    @property
    def range_us(self) -> int:
        """For how long rows must be known."""
        return max((call.start or 0 for call in self.calls if call.kind == "range"), default=0)

    @property
    def carried(self) -> tuple[OverCall, ...]:
        """Calls over all rows of a key: what they were at the key's last row is kept with it."""
        return tuple(call for call in self.calls if call.start is None)

    @property
    def state(self) -> tuple[StateSpec, ...]:
        """Rows that wait for the watermark; and rows that were answered, which later ones look back at."""
        keys = tuple(f"`{key}`" for key in self.keys)
        waiting = StateSpec(keys, self.time, self.lag_us)
        if self.rows_kept and self.keep_us:
            return waiting, StateSpec(keys, self.time, self.lag_us, "ttl", self.keep_us, replaced=True)
        if self.rows_kept:
            return waiting, StateSpec(keys, self.time, self.lag_us, "forever", replaced=True)
        return waiting, StateSpec(keys, self.time, self.lag_us + self.range_us, replaced=True)

    @property
    def reach_us(self) -> int | None:
        return None if self.rows_kept else self.range_us + self.lag_us + 1

    @property
    def keeps(self) -> str:
        parts = ["rows until the watermark passes them"]
        if self.range_us:
            parts.append(f"rows for {seconds(self.range_us + self.lag_us)} after that")
        if self.rows_kept:
            until = (
                f"until the watermark is {seconds(self.keep_us + self.lag_us)} past them"
                if self.keep_us
                else "for ever"
            )
            parts.append(f"the last {self.rows_kept if self.rows_kept > 1 else 'one'} of each key {until}")
        if self.ahead:
            parts.append(f"of these {self.ahead} without an answer")
        return ", ".join(parts)

    def describe(self) -> str:
        calls = ", ".join(call.describe() for call in self.calls)
        by = f" by {', '.join(map(pretty, self.keys))}" if self.keys else ""
        return f"Over {calls}{by} in order of {pretty(self.time)}"


@dataclass(frozen=True)
class OverAhead(Over):
    """Window functions that look at rows after the current one, too: it is answered when these are final. So answers
    lie behind the watermark, however far, and have no time."""

    looks_ahead: ClassVar[bool] = True
