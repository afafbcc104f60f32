"""A query's logical plan: a flat tuple of operators in topological order, the sink last.

Operators name their inputs by position. Expressions are Spark SQL text over the columns of the input, whose names are
flat and unique in the plan (`alias__column`). A plan with its literals lifted out as parameters (columns `__p0`,
`__p1`, ...) is a *shape*; queries of one shape run in one Spark plan.

Time. The clock of a query says: every row its sources will still send is at or after it. Deeper in the plan a time
column may lag behind that promise (a join pairs a new row with one up to a band older), so whatever waits for the
clock carries the lag of its time column: a window closes when `clock - lag >= window end`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from godwit.ids import QueryId, StreamId

#: columns the engine adds to rows; user names may not begin like this
QUERY, DEVICE, PARAMETER = "__query", "__device", "__p"
#: in state: since which epoch the row's region owns the instance; rows of one generation have met each other
GENERATION = "__gen"
#: where several meetings of a join are held at once: the number of the row's
MEETING = "__meeting"
#: in a scan's columns: the epoch under which a row was taken in, so that queries which share a join can tell what came
#: before them
EPOCH = "__epoch"
#: a window's bounds in the output of Partial and Aggregate (timestamps)
WINDOW_START, WINDOW_END = "__window_start", "__window_end"


@dataclass(frozen=True)
class Column:
    name: str
    #: Spark's DDL name, e.g. "int", "timestamp", "decimal(10,2)"
    type: str


@dataclass(frozen=True)
class Stream:
    """A declared stream: what its rows look like and which column is event time."""

    id: StreamId
    columns: tuple[Column, ...]
    #: the event-time column, a timestamp
    time: str
    #: the column that names the sending device; None: the whole stream is one device of the stream's name
    device: str | None = None
    #: how far (microseconds) a device's rows may lie behind the newest it has sent
    disorder_us: int = 0
    #: an attached device that is silent for this long no longer holds the clocks back; None: it does for ever
    idle_seconds: float | None = None
    #: what one device sends (Mbit/s), for admission; None: a guess until it is measured
    mbps: float | None = None
    #: how far (microseconds) a row may lie ahead of the wall clock when it comes in; None: as far as it likes
    ahead_us: int | None = None


@dataclass(frozen=True)
class Named:
    """An expression and the name of the column it makes."""

    name: str
    sql: str


@dataclass(frozen=True)
class Scan:
    """Rows of a stream, each column as `alias__column`."""

    stream: StreamId
    alias: str
    #: the stream's own column names that the plan needs (always including its time column)
    columns: tuple[str, ...]
    #: the column of which each query wants a few values (lifted from `column = ..` or `IN (..)`), or None: all rows
    subscribe: str | None = None
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Filter:
    inputs: tuple[int, ...]
    predicate: str


@dataclass(frozen=True)
class Project:
    inputs: tuple[int, ...]
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class Union:
    """UNION ALL: every input has the same columns."""

    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """How rows are cut by time. Tumbling: slide == size. Session: only `gap_us` is set."""

    #: the column (a timestamp) that is cut
    time: str
    size_us: int = 0
    slide_us: int = 0
    gap_us: int = 0

    @property
    def kind(self) -> str:
        if self.gap_us:
            return "session"
        return "tumbling" if self.size_us == self.slide_us else "hopping"


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: its column, function, argument (None: count(*)) and constants (a percentile's fraction)."""

    name: str
    function: str
    argument: str | None
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Partial:
    """Combines what is there (one micro-batch, at a device's site) into partial aggregates; holds no state."""

    inputs: tuple[int, ...]
    window: Window
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class Aggregate:
    """Keeps the partial aggregates of its Partial and merges them when the clock passes the window's end.

    Output: key columns, WINDOW_START, WINDOW_END, one column an aggregate.
    """

    inputs: tuple[int, ...]
    window: Window
    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    #: how far the window's time column lags behind the query's clock
    lag_us: int = 0


@dataclass(frozen=True)
class Join:
    """Pairs rows of two inputs with equal keys and `right_time - left_time` within [lower_us, upper_us].

    Output: all columns of both inputs.
    """

    inputs: tuple[int, ...]
    #: (expression over the left input, expression over the right input)
    keys: tuple[tuple[str, str], ...]
    left_time: str
    right_time: str
    lower_us: int
    upper_us: int
    #: further condition over the columns of both
    residual: str | None = None
    left_lag_us: int = 0
    right_lag_us: int = 0


@dataclass(frozen=True)
class Sink:
    """Where results leave; `time` is the column by which a derived stream is ordered, if there is one."""

    inputs: tuple[int, ...]
    #: final column names, in the order of the SELECT list
    columns: tuple[str, ...]
    time: str | None = None
    lag_us: int = 0


Operator = Scan | Filter | Project | Union | Partial | Aggregate | Join | Sink
STATEFUL = (Aggregate, Join)


@dataclass(frozen=True)
class Plan:
    operators: tuple[Operator, ...]

    @property
    def sink(self) -> Sink:
        last = self.operators[-1]
        assert isinstance(last, Sink)
        return last

    @property
    def scans(self) -> tuple[tuple[int, Scan], ...]:
        return tuple((i, op) for i, op in enumerate(self.operators) if isinstance(op, Scan))

    def consumer(self, index: int) -> tuple[int, int]:
        """(the operator that reads operator `index`, which of its inputs that is)"""
        for k, operator in enumerate(self.operators):
            if index in operator.inputs:
                return k, operator.inputs.index(index)
        msg = f"operator {index} has no consumer"
        raise AssertionError(msg)

    def is_local(self, index: int) -> bool:
        """Whether the operator has one instance a device (everything from a scan up to the first holistic operator)."""
        operator = self.operators[index]
        if isinstance(operator, Scan):
            return True
        if isinstance(operator, Filter | Project | Partial | Union):
            return all(self.is_local(child) for child in operator.inputs)
        return False

    def next_holistic(self, index: int) -> int:
        """The stateful operator or sink that the operator's rows come to."""
        consumer, _ = self.consumer(index)
        holistic = isinstance(self.operators[consumer], (*STATEFUL, Sink))
        return consumer if holistic else self.next_holistic(consumer)

    def scans_below(self, index: int) -> tuple[int, ...]:
        """The scans that feed the operator, in plan order."""
        operator = self.operators[index]
        if isinstance(operator, Scan):
            return (index,)
        return tuple(scan for i in operator.inputs for scan in self.scans_below(i))


@dataclass(frozen=True)
class Parameter:
    """A literal lifted out of the plan: column `name` of type `type` in the parameter table."""

    name: str
    type: str


@dataclass(frozen=True)
class Shape:
    """A plan with its literals lifted out."""

    plan: Plan
    parameters: tuple[Parameter, ...] = ()

    @cached_property
    def key(self) -> str:
        """Short and stable: equal for queries that can share one Spark plan."""
        return hashlib.sha256(repr((self.plan, self.parameters)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Query:
    """A query that passed the front end."""

    id: QueryId
    #: as the user wrote it
    sql: str
    shape: Shape
    #: one SQL literal for each of the shape's parameters, in order
    parameters: tuple[str, ...] = ()
    #: scan index -> the values (SQL literals) of the scan's `subscribe` column that this query wants
    subscriptions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: INSERT INTO: the derived stream that the results become
    target: StreamId | None = None
    #: the SELECT in a form that Spark runs as a batch over tables named like the streams: what the oracle computes
    oracle_sql: str = ""
    #: the result's column names, as the user gave them
    output: tuple[str, ...] = ()
    #: the shared parts it stands on, directly or through others: queries without a user, executed once for all readers
    parts: tuple[QueryId, ...] = ()
    #: a shared part itself
    internal: bool = False
    #: of a query that was split into parts: what it was before (see `identity`)
    whole: str = ""

    @property
    def identity(self) -> str:
        """Equal for queries that are the same in all but their name."""
        text = repr((self.shape.key, self.parameters, sorted(self.subscriptions.items()), self.target))
        return self.whole or hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(operator: Operator) -> str:
    """One line for people: what the operator does."""
    match operator:
        case Scan():
            how = f" by {operator.subscribe}" if operator.subscribe else ""
            return f"Scan {operator.stream} as {operator.alias}{how}"
        case Filter():
            return f"Filter {_pretty(operator.predicate)}"
        case Project():
            return "Project " + ", ".join(f"{_pretty(c.sql)} AS {_pretty(c.name)}" for c in operator.columns)
        case Union():
            return "Union all"
        case Partial():
            return f"Partial {_aggregation(operator.window, [k.name for k in operator.keys], operator.aggregates)}"
        case Aggregate():
            return f"Aggregate {_aggregation(operator.window, operator.keys, operator.aggregates)}"
        case Join():
            on = " AND ".join(f"{left} = {right}" for left, right in operator.keys) or "true"
            limits = f"[{_seconds(operator.lower_us)}, {_seconds(operator.upper_us)}]"
            band = f"{operator.right_time} - {operator.left_time} in {limits}"
            rest = f" AND {operator.residual}" if operator.residual else ""
            return _pretty(f"Join {on} AND {band}{rest}")
        case Sink():
            return "Sink " + ", ".join(operator.columns)


def _aggregation(window: Window, keys: Any, aggregates: tuple[AggregateCall, ...]) -> str:
    cut = f"session({_seconds(window.gap_us)})" if window.gap_us else f"{window.kind}({_seconds(window.size_us)}"
    if not window.gap_us:
        cut += ")" if window.kind == "tumbling" else f", every {_seconds(window.slide_us)})"
    calls = ", ".join(f"{a.function}({_pretty(a.argument or '*')})" for a in aggregates)
    return f"{calls} by {', '.join([_pretty(str(k)) for k in keys] + [cut])}"


def _seconds(us: int) -> str:
    return f"{us / 1e6:g} s"


def _pretty(sql: str) -> str:
    """`a__x > __p0` as `a.x > :p0`"""
    sql = re.sub(r"\b__p(?=\d)", ":p", sql)
    sql = re.sub(r"\b__window_", "window.", sql)
    return re.sub(r"\b__", "", sql).replace("__", ".")
