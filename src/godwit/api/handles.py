"""What `fleet.submit` and `fleet.device` return: a query or a device to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from html import escape

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from godwit.api.core import FleetCore
from godwit.api.oracle import Verdict, verdict
from godwit.control.commands import Withdraw
from godwit.delivery.delivery import Delivery
from godwit.delivery.json_rows import html_table, json_rows
from godwit.delivery.sinks.base import ResultSink
from godwit.engine import segments
from godwit.engine.upserts import with_kind
from godwit.ids import DeviceId, QueryId, SiteId, StreamId
from godwit.ingest.rows import Rows, as_rows
from godwit.maintenance.supervisor import Supervisor
from godwit.model.explain import explain
from godwit.model.plan import CLASS, QUERY, Query
from godwit.model.taps import apart, executor, together

#: number of results that a notebook shows
SHOWN = 20


class QueryHandle:
    """A running query."""

    def __init__(self, fleet: FleetCore, supervisor: Supervisor, query: QueryId) -> None:
        self._fleet, self._supervisor, self.id = fleet, supervisor, query

    def results(self) -> DataFrame:
        """Every result so far, as a Spark DataFrame; of results that replace each other the newest per key."""
        return self._fleet.results(self.id)

    def changes(self) -> DataFrame:
        """The results as they came, also those that were replaced since: `__version` says which of two is newer,
        `__deleted` that the key has no row any more, `__change` whether the row is an insert, an update or a delete of
        its key's. Of a query whose results are only added to: the results."""
        return with_kind(self._fleet.changes(self.id), self._fleet.execution(self.id).shape.plan.sink)

    def explain(self) -> str:
        """The plan, its parameters and shape; below it what it shares with other queries."""
        query = self._fleet.execution(self.id)
        shared = [f"-- shared: {self._read(self._fleet.execution(part))}\n" for part in query.parts]
        return "\n".join([explain(query, self._fleet.deployment.parked.get(query.id)), *shared, *self._tapped(query)])

    def _tapped(self, query: Query) -> Iterator[str]:
        """Which operators are executed once for several queries, and for whom."""
        for operators, users in together(query, self._fleet.deployment.queries):
            run = f"operators {', '.join(map(str, operators))}" if len(operators) > 1 else f"operator {operators[0]}"
            yield f"-- shared: {run} run once for {', '.join(users)}\n"
        for operator, others, why in apart(query, self._fleet.deployment.queries):
            yield f"-- not shared: operator {operator}, which {', '.join(others)} has as well: {why}\n"

    def _read(self, part: Query) -> str:
        assert part.cut is not None
        leader = executor(part, part.cut, self._fleet.deployment.queries).id
        what = part.shape.plan.operators[part.cut].describe()
        return f"operator {part.cut} of {leader} runs once for {leader} and this one ({what})"

    def verdict(self) -> Verdict:
        """Compare the results so far with the same SQL as a batch over everything that was sent."""
        self._supervisor.must_be_whole(self.id)
        return verdict(self._fleet, self.id)

    def late(self) -> DataFrame:
        """Rows that came after their window had closed, or too late to find a partner: in no result, but not lost.

        Of a query that shares an execution, also what was too late there, from the query's beginning on.
        """
        fleet = self._fleet
        query = fleet.execution(self.id)
        found = [self._late(query)]
        for one in (query, *map(fleet.execution, query.parts)):
            leaders = {executor(one, operator, fleet.deployment.queries).id for operator in one.taps} - {one.id}
            found += [self._late(fleet.deployment.queries[leader], one.begins) for leader in sorted(leaders)]
        frames = [frame for frame in found if frame is not None]
        if not frames:
            return fleet.spark.range(0).select()
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)

    def _late(self, query: Query, since: int = 0) -> DataFrame | None:
        found = segments.frame(self._fleet.spark, self._fleet.pool.late(query.shape.key))
        if found is None:
            return None
        old = F.coalesce(F.col(CLASS), F.lit(0)) if CLASS in found.columns else F.lit(0)
        return found.where((F.col(QUERY) == query.id) & (old >= since)).drop(QUERY, CLASS)

    def write_to(self, sink: ResultSink) -> Delivery:
        """Let a sink follow the results, from the oldest that are kept. Attached again after a restart, it goes on."""
        return self._supervisor.deliver(self.id, sink)

    def stop(self) -> None:
        """Withdraw the query; its results stay readable."""
        self._fleet.control.execute(Withdraw(self.id))

    def __repr__(self) -> str:
        return f"QueryHandle({self.id!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the plan, and the newest results."""
        rows = self.results().limit(SHOWN).toArrow()
        return f"<b>{escape(self.id)}</b><pre>{escape(self.explain())}</pre>{html_table(json_rows(rows))}"


class DeviceHandle:
    """A device: it pushes rows, and may leave one site and turn up at another. While it is away, it buffers."""

    def __init__(self, fleet: FleetCore, device: DeviceId) -> None:
        self._fleet, self.id = fleet, device
        self._buffer: list[tuple[StreamId, Rows, int | None]] = []
        #: feeds, the name that was given, the stream that was found
        self._found: tuple[object, str | None, StreamId] | None = None

    @property
    def attached(self) -> bool:
        return self._fleet.is_attached(self.id)

    @property
    def buffered(self) -> int:
        """Batches that wait for the device to be attached again."""
        return len(self._buffer)

    def push(self, rows: Rows, stream: str | None = None, sequence: int | None = None) -> bool:
        """Send rows; False if they were buffered, or if this sequence number came through before."""
        target = self._target(stream)
        if not self.attached:
            self._buffer.append((target, as_rows(target, rows), sequence))
            return False
        return self._fleet.push(target, rows, device=self.id, sequence=sequence)

    def _target(self, stream: str | None) -> StreamId:
        """The stream that rows are for; looked up once for as long as devices feed the same streams."""
        feeds = self._fleet.deployment.feeds
        if self._found is None or self._found[0] is not feeds or self._found[1] != stream:
            self._found = (feeds, stream, self._fleet.stream_of(self.id, stream))
        return self._found[2]

    def detach(self) -> None:
        """Out of reach: its clock stands still, its rows are buffered."""
        self._fleet.move_device(self.id, None)

    def attach(self, site: str) -> None:
        """At a (new) site: whatever was buffered goes out first."""
        self._fleet.move_device(self.id, SiteId(site))
        waiting, self._buffer = self._buffer, []
        for stream, rows, sequence in waiting:
            self._fleet.push(stream, rows, device=self.id, sequence=sequence)

    def reset_clock(self) -> None:
        """Its clock was wrong: its watermark is what it sends from now on. Windows that have closed stay closed."""
        self._fleet.reset_clock(self.id)

    def close(self) -> None:
        """Nothing more will come from it: no clock waits for it any longer. It begins again by sending."""
        self._fleet.close_device(self.id)
