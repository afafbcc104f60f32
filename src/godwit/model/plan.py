"""A query's logical plan: a flat tuple of operators in topological order, the sink last.

Operators name their inputs by position. Expressions are Spark SQL text over the columns of the input, whose names are
flat and unique in the plan (`alias__column`). A plan with its literals lifted out as parameters (columns `__p0`,
`__p1`, ...) is a *shape*; queries of one shape run in one Spark plan.

Time. The clock of a query says: every row its sources will still send is at or after it. Deeper in the plan a time
column may lag behind that promise (a join pairs a new row with one up to a band older), so whatever waits for the
clock carries the lag of its time column: a window closes when `clock - lag >= window end`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self
from weakref import WeakValueDictionary

from godwit.ids import QueryId, RegionId, StreamId
from godwit.model import signature
from godwit.model.values_kept import values_kept

#: columns the engine adds to rows; user names may not begin like this
QUERY, DEVICE, PARAMETER = "__query", "__device", "__p"
#: in state: since which epoch the row's region owns the instance; rows of one generation have met each other
GENERATION = "__gen"
#: where several meetings of a join are held at once: the number of the row's
MEETING = "__meeting"
#: in the stream of a shared operator: for whom a row is (`sql/sharing.py`)
READER = "__reader"
#: where a query is tapped: the newest beginning among those who take in the row (`model/taps.py`)
CLASS = "__class"
#: a window's bounds in the output of Partial and Aggregate (timestamps)
WINDOW_START, WINDOW_END = "__window_start", "__window_end"
#: in results that replace each other: of two rows of a key the one of the greater version is newer; and whether the key
#: has no row any more
VERSION, DELETED = "__version", "__deleted"
#: what such a row is to its key, for readers: "insert", "update" or "delete"
CHANGE = "__change"
#: a column that every stream of devices has, and `*` does not name: when the row entered the fleet, as its log says
ARRIVED = "_arrived"


#: the rows of a stream that came too late are a relation of their own: `late.stream`
LATE = "late"


def arrival_view(stream: str, late: bool = False) -> str:
    """What the oracle calls a stream with that column."""
    return f"__{LATE if late else 'arrival'}_{stream.lower()}"


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
    #: of a reference table: the columns that name a row; its stream has a row for each version of one
    key: tuple[str, ...] = ()
    #: columns that came later: rows may lack them
    added: tuple[str, ...] = ()

    def widened(self, more: tuple[Column, ...]) -> Stream:
        """The same stream with columns more."""
        return replace(self, columns=(*self.columns, *more), added=(*self.added, *(c.name for c in more)))

    def is_declared_by(self, other: Stream) -> bool:
        """Whether a program that declares this means it: with the columns that came later, or without."""
        first = tuple(column for column in self.columns if column.name not in self.added)
        return other in (self, replace(self, added=()), replace(self, columns=first, added=()))


#: columns of a reference table's stream: which of two versions of one time is newer, and that the row is gone
SEQUENCE, GONE = "__sequence", "__gone"


@dataclass(frozen=True)
class Named:
    """An expression and the name of the column it makes."""

    name: str
    sql: str


@dataclass(frozen=True)
class StateSpec:
    """What a stateful operator keeps of one of its inputs."""

    #: SQL over the state's rows: rows of equal keys belong together, so state can be divided by them
    keys: tuple[str, ...]
    #: the column of time (a timestamp) by which state is pruned; None: the operator has none
    time: str | None
    #: how far that column lags behind the query's watermark
    lag_us: int = 0
    #: when rows may go: when the watermark has passed them, after `ttl_us` without a new row of the key, or never
    retention: Literal["watermark", "ttl", "forever"] = "watermark"
    ttl_us: int | None = None
    #: rows of it are replaced by newer ones: a later copy takes the place of an earlier one, instead of adding to it
    replaced: bool = False


#: every kind of operator, by name: a plan in a log is read again by it
KINDS: dict[str, type[Operator]] = {}


class Operator:
    """A node of a plan. A new kind of operator says all that planning must know of it in its own class."""

    inputs: tuple[int, ...]
    #: it looks at one row, or one micro-batch, at a time: each device may have an instance of its own
    per_device: ClassVar[bool] = True
    stateful: ClassVar[bool] = False
    #: share of the rows that come out, where nothing was measured
    selectivity: ClassVar[float] = 1.0
    #: what an instance may do before its state has arrived: run and merge it later; let the old instance go on
    #: answering; or wait for it
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"
    #: whether rows must be taken in by their time, below the watermark, not as they arrive
    needs_order: ClassVar[bool] = False
    #: when results are made: as rows arrive, or when the watermark goes on
    emits: ClassVar[Literal["arrival", "watermark"]] = "arrival"
    #: whether rows stay in its state when they are answered, for others to meet: who takes it over must be told
    answered_stay: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        KINDS[cls.__name__] = cls

    @property
    def holistic(self) -> bool:
        """Whether it has one instance for all devices: rows come together in it."""
        return self.stateful

    @property
    def output(self) -> Literal["append", "upsert"]:
        """ "upsert": a later row replaces an earlier one of the same key."""
        return "append"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        """Of a stateful operator: one for each input, then those of what else it keeps."""
        return ()

    @property
    def keeps(self) -> str:
        """Of a stateful operator, for people: what it keeps, and until when."""
        return ""

    @property
    def reach_us(self) -> int | None:
        """How far behind the watermark rows lie that may still be part of the state; None: as far as there are rows."""
        return None

    @property
    def told_apart(self) -> Literal["rows", "partials"] | None:
        """How readers of different beginnings can share it (`model/taps.py`): by the class of each row that comes out;
        by partials that it keeps by class, and merges for each reader (`OperatorContext.for_readers`); or not."""
        return None if self.stateful else "rows"

    def may_answer(self, before: int, now: int) -> bool:
        """Whether results may come of it when its watermark goes from one time (microseconds) to another."""
        return self.emits == "watermark" and now > before

    @property
    def detail(self) -> str:
        """What `explain` adds to the line."""
        return ""

    def reading(self, inputs: tuple[int, ...]) -> Self:
        """The same operator with other inputs."""
        return replace(self, inputs=inputs)  # type: ignore[type-var]  # all kinds are dataclasses

    def describe(self) -> str:
        """One line for people: what the operator does."""
        return type(self).__name__


@dataclass(frozen=True)
class Scan(Operator):
    """Rows of a stream, each column as `alias__column`."""

    stream: StreamId
    alias: str
    #: the stream's own column names that the plan needs (always including its time column)
    columns: tuple[str, ...]
    #: the column of which each query wants a few values (lifted from `column = ..` or `IN (..)`), or None: all rows
    subscribe: str | None = None
    inputs: tuple[int, ...] = ()
    #: its watermark follows the time of arrival (`ARRIVED`), not the stream's own time column
    arrival: bool = False
    #: only rows that came too late for what their device had promised (`late.stream`); by arrival
    late: bool = False

    @property
    def detail(self) -> str:
        return f" ({', '.join(self.columns)})"

    def describe(self) -> str:
        how = f" by {self.subscribe}" if self.subscribe else ""
        name = f"late.{self.stream}" if self.late else self.stream
        return f"Scan {name} as {self.alias}{how}{', in the order of arrival' if self.arrival else ''}"


@dataclass(frozen=True)
class Filter(Operator):
    inputs: tuple[int, ...]
    predicate: str
    selectivity: ClassVar[float] = 0.5

    def describe(self) -> str:
        return f"Filter {pretty(self.predicate)}"


@dataclass(frozen=True)
class Project(Operator):
    inputs: tuple[int, ...]
    columns: tuple[Named, ...]

    def describe(self) -> str:
        return "Project " + ", ".join(f"{pretty(c.sql)} AS {pretty(c.name)}" for c in self.columns)


@dataclass(frozen=True)
class Union(Operator):
    """UNION ALL: every input has the same columns."""

    inputs: tuple[int, ...]

    def describe(self) -> str:
        return "Union all"


@dataclass(frozen=True)
class OldRows(Operator):
    """While two plans of a query run side by side: of what the old one makes, that in which a row from before takes
    part. Rows that come in below it now have a class, those that it has inherited have none; what is made of both is as
    old as its oldest row (`godwit.replan.tracks`)."""

    inputs: tuple[int, ...]
    #: the new plan takes no row in before the old one has answered all that it has to (windows run out)
    later: bool = False

    def describe(self) -> str:
        return "Old rows only"


@dataclass(frozen=True)
class Window:
    """How rows are cut by time. Tumbling: slide == size. Session: only `gap_us` is set. Unbounded: no length is.

    Hopping windows keep partials per window, or (`slice_us`) per slice: a slice lies in several windows as a whole, so
    a row is stored once. Its partial then has the slice's start, and as its end that of the last window it is in.
    Calendar: whole days of a time zone, which may be an hour shorter or longer than others.
    """

    #: the column (a timestamp) that is cut
    time: str
    size_us: int = 0
    slide_us: int = 0
    gap_us: int = 0
    #: how long after the epoch (in a zone: after midnight of its first day) a window begins
    offset_us: int = 0
    slice_us: int = 0
    zone: str = ""

    @property
    def kind(self) -> str:
        if self.gap_us:
            return "session"
        if not self.size_us:
            return "unbounded"
        if self.zone:
            return "calendar"
        if self.size_us == self.slide_us:
            return "tumbling"
        return "sliced" if self.slice_us else "hopping"

    @property
    def longest_us(self) -> int:
        """No window is longer: clocks are put back by an hour, hardly ever by two."""
        return self.size_us + (7_200_000_000 if self.zone else 0)


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: its column, function, argument (None: count(*)) and constants (a percentile's fraction)."""

    name: str
    function: str
    argument: str | None
    constants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Partial(Operator):
    """Combines what is there (one micro-batch, at a device's site) into partial aggregates; holds no state."""

    inputs: tuple[int, ...]
    window: Window
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]
    #: at each device's site, before rows travel; False: where its Aggregate is, which gets the rows as they are
    early: bool = True
    selectivity: ClassVar[float] = 0.5

    @property
    def per_device(self) -> bool:  # type: ignore[override]  # (of other operators it is known by their kind)
        return self.early

    def describe(self) -> str:
        late = "" if self.early else ", where rows come together"
        return f"Partial {_aggregation(self.window, [k.name for k in self.keys], self.aggregates)}{late}"


@dataclass(frozen=True)
class Aggregate(Operator):
    """Keeps the partial aggregates of its Partial and merges them when the clock passes the window's end.

    Output: key columns, WINDOW_START, WINDOW_END, one column an aggregate.
    """

    inputs: tuple[int, ...]
    window: Window
    keys: tuple[str, ...]
    aggregates: tuple[AggregateCall, ...]
    #: how far the window's time column lags behind the query's clock
    lag_us: int = 0
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    selectivity: ClassVar[float] = 0.2
    emits: ClassVar[Literal["arrival", "watermark"]] = "watermark"
    # Partials merge in any order, and a window closes only when its state has come.
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        return (StateSpec(tuple(f"`{key}`" for key in self.keys), WINDOW_END, self.lag_us),)

    @property
    def reach_us(self) -> int | None:
        return None if self.window.kind == "session" else self.window.longest_us + self.lag_us + 1

    @property
    def keeps(self) -> str:
        until = "the watermark passes the window's end"
        values = values_kept(call.function for call in self.aggregates)
        if self.lag_us:
            until += f" by {seconds(self.lag_us)}"
        if self.window.kind == "sliced":
            pieces = seconds(self.window.slice_us)
            until = until.replace("the window", "the last window")
            return f"one partial row per key and {pieces}{values}, until {until}"
        return f"one partial row per key and window{values}, until {until}"

    @property
    def told_apart(self) -> Literal["rows", "partials"] | None:
        """Where a session ends depends on all its rows."""
        return None if self.window.kind == "session" else "partials"

    def may_answer(self, before: int, now: int) -> bool:
        if self.window.kind not in ("tumbling", "hopping", "sliced"):
            return now > before
        # Windows end once in a slide.
        slide, first = self.window.slide_us, self.window.offset_us + self.window.size_us + self.lag_us
        return (now - first) // slide > (before - first) // slide

    @property
    def detail(self) -> str:
        return f" (closes {seconds(self.lag_us)} late)" if self.lag_us else ""

    def describe(self) -> str:
        return f"Aggregate {_aggregation(self.window, self.keys, self.aggregates)}"


@dataclass(frozen=True)
class Join(Operator):
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
    #: rows of each side stay at least for so long, though no partner can come: in another order of the joins they would
    #: still be needed (`godwit.replan`); 0: no longer than partners can come
    keep_us: tuple[int, int] = (0, 0)
    per_device: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    selectivity: ClassVar[float] = 0.5
    # A pair is found when the later of its rows is there, whether it came as a row or as state.
    late_state: ClassVar[Literal["merge", "dual", "wait"]] = "merge"

    @property
    def state(self) -> tuple[StateSpec, ...]:
        left, right = (tuple(pair[side] for pair in self.keys) for side in (0, 1))
        return StateSpec(left, self.left_time, self.left_lag_us), StateSpec(right, self.right_time, self.right_lag_us)

    @property
    def reach_us(self) -> int | None:
        return max(self.stays_us) + 1

    @property
    def keeps(self) -> str:
        left, right = map(seconds, self.stays_us)
        return f"rows of the left until the watermark is {left} past them, rows of the right {right}"

    @property
    def told_apart(self) -> Literal["rows", "partials"] | None:
        return "rows"

    @property
    def lasts_us(self) -> tuple[int, int]:
        """For how long after its own time a row of each side can still find a partner, as the watermark goes."""
        return self.right_lag_us + self.upper_us, self.left_lag_us - self.lower_us

    @property
    def stays_us(self) -> tuple[int, int]:
        """For how long rows of each side are kept."""
        left, right = self.lasts_us
        return max(left, self.keep_us[0]), max(right, self.keep_us[1])

    @property
    def detail(self) -> str:
        if not (self.left_lag_us or self.right_lag_us):
            return ""
        return f" (left lags {seconds(self.left_lag_us)}, right {seconds(self.right_lag_us)})"

    def describe(self) -> str:
        on = " AND ".join(f"{left} = {right}" for left, right in self.keys) or "true"
        limits = f"[{seconds(self.lower_us)}, {seconds(self.upper_us)}]"
        band = f"{self.right_time} - {self.left_time} in {limits}"
        rest = f" AND {self.residual}" if self.residual else ""
        return pretty(f"Join {on} AND {band}{rest}")


@dataclass(frozen=True)
class Sink(Operator):
    """Where results leave; `time` is the column by which a derived stream is ordered, if there is one."""

    inputs: tuple[int, ...]
    #: final column names, in the order of the SELECT list
    columns: tuple[str, ...]
    time: str | None = None
    lag_us: int = 0
    #: the columns that are the results' key, where a later row replaces an earlier one of the same key; None: every row
    #: is a result of its own
    key: tuple[str, ...] | None = None
    #: whether results of a device come in the order in which it sent the rows, where each row is answered as it comes
    ordered: bool = True
    per_device: ClassVar[bool] = False

    @property
    def holistic(self) -> bool:
        return True

    @property
    def output(self) -> Literal["append", "upsert"]:
        return "append" if self.key is None else "upsert"

    @property
    def written(self) -> tuple[str, ...]:
        """The columns of its segments; those of changes say which is newer."""
        return self.columns if self.key is None else (*self.columns, VERSION, DELETED)

    def describe(self) -> str:
        by = "" if self.key is None else f", the newest row per ({', '.join(self.key)})"
        return "Sink " + ", ".join(self.columns) + by


@dataclass(frozen=True)
class Plan:
    operators: tuple[Operator, ...]

    @property
    def sink(self) -> Sink:
        last = self.operators[-1]
        assert isinstance(last, Sink)
        return last

    @cached_property
    def scans(self) -> tuple[tuple[int, Scan], ...]:
        return tuple((i, op) for i, op in enumerate(self.operators) if isinstance(op, Scan))

    @cached_property
    def stateful(self) -> bool:
        return any(operator.stateful for operator in self.operators)

    @cached_property
    def runs_both(self) -> bool:
        """Whether two plans of a query run side by side in it (`godwit.replan.tracks`)."""
        return any(isinstance(operator, OldRows) for operator in self.operators)

    def consumer(self, index: int) -> tuple[int, int]:
        """(the operator that reads operator `index`, which of its inputs that is)"""
        assert index in self._consumers, f"operator {index} has no consumer"
        return self._consumers[index]

    @cached_property
    def _consumers(self) -> dict[int, tuple[int, int]]:
        readers = ((child, (k, side)) for k, op in enumerate(self.operators) for side, child in enumerate(op.inputs))
        return dict(reversed(list(readers)))  # (of several, the first)

    def is_local(self, index: int) -> bool:
        """Whether the operator has one instance a device (everything from a scan up to the first holistic operator)."""
        return index in self._local

    @cached_property
    def _local(self) -> frozenset[int]:
        found = set[int]()
        for index, operator in enumerate(self.operators):  # inputs come first
            if operator.per_device and found.issuperset(operator.inputs):
                found.add(index)
        return frozenset(found)

    def next_holistic(self, index: int) -> int:
        """The stateful operator or sink that the operator's rows come to."""
        consumer, _ = self.consumer(index)
        return consumer if self.operators[consumer].holistic else self.next_holistic(consumer)

    def below(self, index: int) -> Iterator[int]:
        """An operator and all that its rows are made by."""
        yield index
        for child in self.operators[index].inputs:
            yield from self.below(child)

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
        return signature.digest([self.plan, self.parameters], 12)

    @cached_property
    def signatures(self) -> tuple[str, ...]:
        """Of each operator: what it computes, with all that is below it. State lies under it."""
        types = tuple(parameter.type for parameter in self.parameters)
        return signature.of_operators(self.plan.operators, types)


#: the shapes that queries have: one object each, however many queries there are, and wherever they were read from
_SHAPES: WeakValueDictionary[str, Shape] = WeakValueDictionary()


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
    #: what it reads of queries of other shapes: cuts of them, which are there for it alone (`sql/sharing.py`)
    parts: tuple[QueryId, ...] = ()
    #: not a user's query: a cut, or one that was withdrawn while others tap it
    internal: bool = False
    #: operator -> the running query that executes it for this one as well (`model/taps.py`)
    taps: Mapping[int, QueryId] = field(default_factory=dict)
    #: where one of another shape reads it: the operator whose rows are its results; what lies between that and the sink
    #: is not executed (`sql/sharing.py`)
    cut: int | None = None
    #: the epoch that brought it: rows taken in before are not its, nor is what an earlier query of its name said
    begins: int = 0
    #: the version of the query whose state it goes on with, under another plan (`godwit.replan`)
    inherits: QueryId | None = None
    #: the epoch since which it takes in no rows, because another version has: it ends when its state has gone there
    until: int = 0
    #: of a probing join: the order (aliases) in which a new row probes the other streams
    probes: tuple[str, ...] = ()
    #: the version it goes over to when its states hold all that that one needs; until then joins let no row go
    successor: Query | None = None
    #: of such a version to come: states that only it has are made before it comes (`replan/ahead.py`)
    ahead: bool = False
    #: of a version: the beginning of the query's first one, since when rows of an operator that it taps are its own
    since: int = 0
    #: of a version that has ended (`until`): users still see what it answers
    finishes: bool = False
    #: of such a version: operators whose keys were divided -> the regions that leave their state
    left_in: Mapping[int, tuple[RegionId, ...]] = field(default_factory=dict)
    #: its results leave in whichever region its rows are read: its sink has no region of its own
    scattered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _SHAPES.setdefault(self.shape.key, self.shape))

    @property
    def identity(self) -> str:
        """Equal for queries that are the same in all but their name and target."""
        return signature.digest([self.shape.key, self.parameters, self.subscriptions])

    @cached_property
    def signatures(self) -> tuple[str, ...]:
        """Of each operator: equal to that of another query exactly when the two do the same to the same rows."""
        wanted = {index: sorted(values) for index, values in self.subscriptions.items()}
        return signature.of_values(self.shape.plan.operators, self.parameters, lambda index: wanted.get(index, []))

    @property
    def reads_since(self) -> int:
        """Rows of this class and of later ones are its own, where it taps an operator (`model/taps.py`)."""
        return self.since or self.begins

    @property
    def unseen(self) -> bool:
        """Withdrawn while others tap it: it has no results any more, and ends with the last of them."""
        return self.internal and self.cut is None and not self.finishes

    @cached_property
    def executed(self) -> frozenset[int]:
        """The operators that are executed for it, by itself or by whom it taps: all, unless it is cut."""
        plan = self.shape.plan
        last = len(plan.operators) - 1
        return frozenset(range(last + 1) if self.cut is None else (*plan.below(self.cut), last))

    def inputs(self, index: int) -> tuple[int, ...]:
        """The operators whose rows one reads: of a query that is cut, the sink reads where it is cut."""
        operator = self.shape.plan.operators[index]
        return (self.cut,) if self.cut is not None and isinstance(operator, Sink) else operator.inputs


def _aggregation(window: Window, keys: Any, aggregates: tuple[AggregateCall, ...]) -> str:
    size, slide = seconds(window.size_us), seconds(window.slide_us)
    cuts = {
        "session": f"session({seconds(window.gap_us)})",
        "tumbling": f"tumbling({size})",
        "hopping": f"hopping({size}, every {slide})",
        "sliced": f"hopping({size}, every {slide})",
        "calendar": f"calendar({size}, {window.zone})",
    }
    if window.offset_us:
        cuts = {kind: f"{cut[:-1]}, from {seconds(window.offset_us)})" for kind, cut in cuts.items()}
    calls = ", ".join(f"{a.function}({pretty(a.argument or '*')})" for a in aggregates)
    by = [pretty(str(k)) for k in keys] + ([cuts[window.kind]] if window.kind in cuts else [])
    return f"{calls} by {', '.join(by)}" if by else calls


def seconds(us: int) -> str:
    return f"{us / 1e6:g} s"


def pretty(sql: str) -> str:
    """`a__x > __p0` as `a.x > :p0`"""
    sql = re.sub(r"\b__p(?=\d)", ":p", sql)
    sql = re.sub(r"\b__window_", "window.", sql)
    return re.sub(r"\b__", "", sql).replace("__", ".")
