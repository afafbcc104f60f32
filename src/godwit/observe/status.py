"""What a fleet does, read from its logs alone: works from another process, without Spark."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from godwit.delivery import archive as kept
from godwit.delivery.delivery import positions
from godwit.errors import ConfigError
from godwit.ids import QueryId, RegionId
from godwit.model import taps
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.model.topology import Topology
from godwit.observe.flows import Flows
from godwit.observe.key_usage import Held, held
from godwit.observe.rollup import Totals
from godwit.observe.routes import RouteStatus, routes
from godwit.observe.state_usage import InstanceStatus, instances
from godwit.observe.traffic import traffic
from godwit.observe.waits import waits
from godwit.protocol.commit import recall
from godwit.protocol.memory import Snapshot
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import FOREVER, NEVER, WatermarkTracker
from godwit.storage import names
from godwit.storage.epoch_log import Control
from godwit.storage.log import Log, Record
from godwit.storage.state_memory import StateMemory, remembered
from godwit.storage.store import Store

Key = tuple[RegionId, str]
#: times are shown over the last minute in which there were micro-batches, and over at most this number of them
RECENT_SECONDS, RECENT = 60.0, 3_000


@dataclass(frozen=True)
class Times:
    """Percentiles in milliseconds; None where nothing was measured."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    @staticmethod
    def of(values: Iterable[float | None]) -> Times:
        known = sorted(v for v in values if v is not None)
        if not known:
            return Times()
        return Times(*(round(known[min(int(len(known) * q), len(known) - 1)], 1) for q in (0.5, 0.95, 0.99)))


@dataclass(frozen=True)
class RunnerStatus:
    """One shape in one region."""

    region: str
    shape: str
    epoch: int
    batches: int
    rows_in: int
    rows_out: int
    rows_late: int
    batch_ms: Times
    #: from a row's entry into the fleet to the commit of the results it led to
    latency_ms: Times
    #: from the newest event that contributed to the commit of the results: without the length of windows
    event_latency_ms: Times
    #: entries of sources, and commits of other regions, that are still to be read
    unread: int
    #: "signature/input" of an operator -> rows, and bytes
    state_rows: dict[str, int]
    state_bytes: dict[str, int]
    #: state that went to other regions (bytes)
    handed_over: int


@dataclass(frozen=True)
class QueryStatus:
    name: str
    shape: str
    rows_out: int
    rows_late: int
    #: how far the query's clock lies behind the newest event of its streams (seconds); None: no event yet
    clock_lag_s: float | None
    #: why it has no place now, if it has none
    parked: str | None = None
    #: the queries with which it has an execution in common; of a cut, its reader
    shared_by: tuple[str, ...] = ()
    #: "operator/input" of its stateful operators -> rows that it, with others of its shape, has taken in
    taken: dict[str, int] = field(default_factory=dict)
    #: why it was stopped, if a micro-batch could not be run because of it, or of a part that it stands on
    failed: str | None = None


@dataclass(frozen=True)
class SinkStatus:
    query: str
    sink: str
    exactly_once: bool
    #: commits that are not delivered yet
    behind: int


@dataclass(frozen=True)
class Status:
    """Everything there is to see of a fleet."""

    folder: str
    epoch: int
    runners: tuple[RunnerStatus, ...] = ()
    queries: tuple[QueryStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    #: what each stateful instance holds
    state: tuple[InstanceStatus, ...] = ()
    #: of operators whose keys are divided: who has which
    routes: tuple[RouteStatus, ...] = ()
    #: "a -> b" -> bytes; rows are taken to go the shortest way from the sites where they came in
    links: dict[str, int] = field(default_factory=dict)
    #: stream -> rows that did not fit
    dead: dict[str, int] = field(default_factory=dict)
    #: stream -> column that rows had and it has not -> what to say of it
    unknown: dict[str, dict[str, str]] = field(default_factory=dict)
    #: what has stopped, and why
    failures: dict[str, str] = field(default_factory=dict)
    #: Spark's streaming query -> its last progress; empty when read from another process
    spark: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> Record:
        return asdict(self)


class _Tail:
    """Follows one commit log: totals since ever, and the newest micro-batches one by one."""

    def __init__(self, store: Store, key: Key) -> None:
        self._store, self.key = store, key
        self.number, self.totals = 0, Totals()
        #: of the newest: when, how long it took, latency and event latency of its results
        self.recent: deque[tuple[float, float | None, float | None, float | None]] = deque(maxlen=RECENT)
        self.last: Record | None = None
        #: what the newest commit and those before it, back to the last whole one, say of the protocol's memory
        self._memories: list[Record] = []
        #: state that the region holds
        self.memory: StateMemory | None = None

    def read_on(self) -> None:
        through, totals = kept.totals(self._store, *self.key)
        if through > self.number:
            self.number, self.totals = through, totals
        for number, record in self._store.log(names.commit_log(*self.key)).after(self.number):
            self.number, self.last = number, record
            self.totals.add(record, self._store)
            if "whole" in record["protocol"]:
                self._memories.clear()
            self._memories.append(record["protocol"])
            self.memory = remembered(self.memory, [record], self._store)
            told = record["metrics"]
            latencies = (told["latency_ms"], told["event_latency_ms"]) if told["rows_out"] else (None, None)
            self.recent.append((told["wall"], told["took_ms"], *latencies))

    def protocol(self) -> Snapshot:
        """What the region remembers of the protocol."""
        return recall(None, self._memories) or Snapshot()

    def watermarks(self) -> WatermarkTracker:
        """What the region has received."""
        return WatermarkTracker(self.protocol().marks)

    def status(self, unread: int) -> RunnerStatus:
        assert self.last is not None
        total, now = self.totals, self.last["metrics"]
        since = now["wall"] - RECENT_SECONDS  # (by the region's clock: a fleet may be looked at later)
        recent = [one for one in list(self.recent) if one[0] >= since]
        return RunnerStatus(
            *self.key,
            self.last["epoch"],
            *(total.batches, total.rows_in, total.rows_out, total.rows_late),
            Times.of(one[1] for one in recent),
            Times.of(one[2] for one in recent),
            Times.of(one[3] for one in recent),
            unread,
            now["state_rows"],
            now["state_bytes"],
            total.handed_over,
        )


class Ledger:
    """Reads a fleet's folder; a second look reads only what is new. Any thread may look."""

    def __init__(self, store: Store) -> None:
        if not store.disk.exists(names.CONTROL):
            where = store.disk.root
            msg = f"{where} is not a fleet's folder: it has no control log; give the folder it was opened with"
            raise ConfigError(msg)
        self._store = store
        self._tails: dict[Key, _Tail] = {}
        #: two threads that read on at once would count a commit twice
        self._reading = threading.Lock()

    def _read_on(self) -> None:
        with self._reading:
            for key in names.shapes(self._store.disk):
                self._tails.setdefault(key, _Tail(self._store, key)).read_on()

    def rows_by_source(self) -> dict[str, int]:
        """ "stream/device" -> rows taken in so far, by whichever shape has read most of them."""
        self._read_on()
        by_shape: dict[tuple[str, str], int] = {}
        for (_, shape), tail in self._tails.items():
            for source, rows in tail.totals.rows_by_source.items():
                by_shape[shape, source] = by_shape.get((shape, source), 0) + rows
        found: dict[str, int] = {}
        for (_, source), rows in by_shape.items():
            found[source] = max(rows, found.get(source, 0))
        return found

    def flows(self, shape: str) -> Flows:
        """What has flowed through a shape so far."""
        self._read_on()
        return self._flows(shape)

    def _flows(self, shape: str) -> Flows:
        return Flows.of([tail.totals for (_, known), tail in list(self._tails.items()) if known == shape])

    def status(self) -> Status:
        control = Control(self._store)
        deployment = control.deployment_at(control.last)
        self._read_on()
        tails = {key: tail for key, tail in sorted(self._tails.items()) if tail.last is not None}
        totals = {key: tail.totals for key, tail in tails.items()}
        return Status(
            self._store.disk.root,
            int(deployment.epoch),
            tuple(tail.status(self._unread(tail)) for tail in tails.values()),
            tuple(self._query(query, deployment, tails) for query in deployment.queries.values()),
            tuple(self._sinks(tails)),
            tuple(
                i for (region, _), t in tails.items() for i in instances(deployment, region, t.memory or StateMemory())
            ),
            tuple(routes(deployment, {key: t.memory or StateMemory() for key, t in tails.items()}, self._store)),
            traffic(deployment, self._topology(), totals),
            self._store.get_document(names.DEAD_LETTERS) or {},
            self._store.get_document(names.UNKNOWN_COLUMNS) or {},
        )

    def keys_held(self, query: QueryId, operator: int) -> Held | None:
        """What each key of an operator holds, by region; None: its keys cannot be read without Spark."""
        self._read_on()
        control = Control(self._store)
        shape = control.deployment_at(control.last).queries[query].shape
        state, found = str(StateKey(shape.signatures[operator], 0)), {}
        for (region, key), tail in self._tails.items():
            if key == shape.key and tail.memory is not None:
                known = held(shape.plan, operator, query, tail.memory.states.get(state, ()))
                if known is None:
                    return None
                found[str(region)] = known
        return found

    def waits(self, query: Query) -> list[str]:
        """What the query's rows wait for, in words."""
        self._read_on()
        control = Control(self._store)
        mine = [tail for (_, shape), tail in self._tails.items() if shape == query.shape.key]
        newest = max((t.totals.newest_us for t in mine if t.totals.newest_us is not None), default=None)
        return waits(query, control.deployment_at(control.last), [tail.protocol() for tail in mine], newest)

    def _unread(self, tail: _Tail) -> int:
        """Entries and commits past the positions that the newest commit has come to."""
        assert tail.last is not None
        region, shape = tail.key
        unread = 0
        for name, position in tail.last["positions"].items():
            kind, _, rest = name.partition(":")
            if kind == "source":
                unread += self._log(names.source_log(region, rest.partition(":")[2])).last - position
            elif kind == "peer":
                unread += _with_something(self._log(names.outbox_log(rest, shape, region)), position)
        return unread

    def _log(self, name: str) -> Log:
        return self._store.log(name)

    def _query(self, query: Query, deployment: Deployment, tails: dict[Key, _Tail]) -> QueryStatus:
        mine = [tail for (_, shape), tail in tails.items() if shape == query.shape.key]
        flows = self._flows(query.shape.key).taken
        return QueryStatus(
            query.id,
            query.shape.key,
            sum(tail.totals.out.get(query.id, 0) for tail in mine),
            sum(tail.totals.late.get(query.id, 0) for tail in mine),
            _lag(query, deployment, mine),
            deployment.parked.get(query.id),
            _shared_by(query, deployment),
            {f"{operator}/{side}": rows for (operator, side), rows in sorted(flows.items())},
            next((why for q in (query.id, *query.parts) if (why := _failure(q, tails)) is not None), None),
        )

    def _sinks(self, tails: dict[Key, _Tail]) -> Iterable[SinkStatus]:
        for saved in positions(self._store):
            ends = {region: tail.number for (region, shape), tail in tails.items() if shape == saved["shape"]}
            behind = sum(end - saved["positions"].get(region, 0) for region, end in ends.items())
            yield SinkStatus(saved["query"], saved["sink"], saved["exactly_once"], behind)

    def _topology(self) -> Topology:
        return Control(self._store).standing().topology


def _with_something(log: Log, position: int) -> int:
    """Messages of another region past a position that hold rows or state."""
    return sum(bool(record["sent"] or record["handovers"]) for _, record in log.after(position))


def _failure(query: QueryId, tails: dict[Key, _Tail]) -> str | None:
    """Why the regions do not run a query any more."""
    told = (tail.last["failed"].get(query) for tail in tails.values() if tail.last is not None)
    return next((str(why[1]) for why in told if why is not None), None)


def _shared_by(query: Query, deployment: Deployment) -> tuple[str, ...]:
    """Those with which a query has an execution in common; of a cut, its reader."""
    queries = deployment.queries
    leaders = {q.id: taps.executor(q, q.cut, queries).id for q in queries.values() if q.cut is not None}
    mine = {leaders.get(part) for part in query.parts} | {query.id}
    readers = {q.id for q in queries.values() if query.id in q.parts or any(leaders.get(p) in mine for p in q.parts)}
    readers |= {leader for leader in mine if leader is not None and not queries[leader].internal}
    if query.taps or taps.readers(query.id, deployment.queries.values()):
        readers |= {user for _, users in taps.together(query, deployment.queries) for user in users}
    return tuple(sorted(readers - {query.id}))


def _lag(query: Query, deployment: Deployment, tails: list[_Tail]) -> float | None:
    sink = len(query.shape.plan.operators) - 1
    newest = max((t.totals.newest_us for t in tails if t.totals.newest_us is not None), default=None)
    progress = Progress(query.shape, deployment)
    clocks = [progress.clocks(tail.watermarks(), sink).get(QueryId(query.id), NEVER) for tail in tails]
    # Clocks are told at first hand, so each region knows a lower bound; the greatest is the newest.
    clock = max(clocks, default=NEVER)
    if newest is None or clock <= NEVER:
        return None
    return 0.0 if clock >= FOREVER else round(max(newest - clock, 0) / 1e6, 3)
