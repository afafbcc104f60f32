"""Derived streams: the committed results of an INSERT INTO become rows of a stream that other queries read.

The query counts as a device of that stream, attached to the site of its sink, which is pinned: its other operators may
move, the place where its results come out does not. A commit is published after the fact, under its number, so that a
repeat after a crash is recognised and passed over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from godwit.ids import RegionId
from godwit.ingest.gateway import Gateway
from godwit.model.deployment import Deployment
from godwit.model.plan import QUERY, Query
from godwit.model.taps import PRODUCER, producer
from godwit.protocol.watermarks import NEVER, Mark
from godwit.region.runner import Runner
from godwit.storage.by_query import may_hold
from godwit.storage.log import Record, Segment


class Publisher:
    """Follows the commits of runners whose queries feed derived streams."""

    def __init__(self, gateway: Gateway, lock: threading.RLock, deployment: Callable[[], Deployment]) -> None:
        self._gateway, self._lock, self._deployment = gateway, lock, deployment

    def publish(self, runner: Runner, number: int, record: Record) -> None:
        """Called after every commit, and again for the last ones after a restart."""
        for query in runner.tables.queries.values():
            if query.target not in self._deployment().streams or record["epoch"] < query.begins:
                continue
            sink = len(query.shape.plan.operators) - 1
            if runner.region in runner.deployment.owners(query, sink):
                # While one version takes over from another, both have results: none can say how far they are.
                alone = not query.until and query.inherits not in runner.deployment.queries
                rows, clock = self._rows(query, record), runner.derived_clocks()[query.id] if alone else NEVER
                with self._lock:  # (rows are read before: a push does not wait for that)
                    self._publish(runner.region, query, number, rows, clock)

    def _publish(self, region: RegionId, query: Query, number: int, table: pa.Table, clock: int) -> None:
        assert query.target is not None
        device = producer(query.id)
        sender = f"{region}|{PRODUCER}{query.id}"  # (commits are numbered by version)
        if number <= self._gateway.sequence(query.target, sender):
            return
        source = self._gateway.source(query.target, device)
        session = self._deployment().sessions.get(device, 1)
        begins = session != source.session or source.left is not None
        if begins:
            source.begin(session, region)
        mark = Mark(session, max(source.clock, clock))
        if table.num_rows == 0 and mark.clock <= source.clock and not begins:
            return
        source.clock, source.region = mark.clock, region
        self._gateway.log(region, query.target).append(
            table, {device: mark}, {str(device): table.num_rows}, {sender: number}
        )
        self._gateway.remember(query.target, sender, number)

    def _rows(self, query: Query, record: Record) -> pa.Table:
        assert query.target is not None
        schema = self._gateway.schema(query.target)
        found = []
        for told in record["results"]:
            segment = Segment.from_json(told, self._gateway.store)
            for table in segment.tables() if may_hold(segment, query.id) else ():
                mine = table.filter(pc.equal(table.column(QUERY), query.id))
                if mine.num_rows:
                    found.append(self._named(query, mine).rename_columns(schema.arrow.names))
        return pa.concat_tables([t.cast(schema.arrow) for t in found]) if found else schema.arrow.empty_table()

    def _named(self, query: Query, rows: pa.Table) -> pa.Table:
        """The columns that a stream takes from its query; rows of a cut name their reader (`sql/sharing.py`)."""
        if query.cut is None:
            return rows.select(list(query.shape.plan.sink.columns))
        return rows.select(list(query.output)).append_column(
            "", pa.repeat(pa.scalar(str(producer(query.id))), len(rows))
        )
