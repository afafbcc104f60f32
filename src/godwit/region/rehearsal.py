"""A plan is rehearsed before a query goes over to it: Spark plans and compiles now what its first micro-batches need.

The query's operators run a few times over the newest rows of the sources, in a memory and a folder that nobody else
sees; what comes out is thrown away. Whatever goes wrong is left for the real thing to find.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from godwit.engine.lazy_frame import LazyFrame
from godwit.engine.plan_cache import Java, java_of
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.protocol.handover import Migration
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker
from godwit.region.batch import Batch, Memory
from godwit.region.inherit import ComputedStates
from godwit.region.poll import Arrived, Work
from godwit.region.recompute import HERE, alone
from godwit.region.routing_tables import Tables
from godwit.region.step import Step
from godwit.replan.ahead import InParts
from godwit.replan.tracks import matching
from godwit.storage.log import Segment
from godwit.storage.names import source_log
from godwit.storage.place import Place
from godwit.storage.store import Store

log = logging.getLogger(__name__)
#: how many of the newest entries of each source log are played
ENTRIES = 6
#: what was rehearsed, of at most so many: how often plans had gone by then
_known: WeakKeyDictionary[Java, dict[tuple[object, ...], int]] = WeakKeyDictionary()
KNOWN = 256


def rehearse(spark: SparkSession, store: Store, region: RegionId, deployment: Deployment, query: Query) -> None:
    """Once: a version's name is no part of its plans, so the next one of the same shape finds them."""
    java, old = java_of(spark), deployment.queries.get(query.inherits or QueryId(""))
    known, what = _known.setdefault(java, {}), (region, old and old.shape.key, query.shape.key, query.parameters)
    if known.get(what) == java.forgotten:
        return
    folder = Place(store, f"landing/rehearsal-{uuid.uuid4().hex}")
    try:
        store.disk.make_folder(folder.reference)
        _Rehearsal(spark, store, region, deployment, query, folder).run()
        if len(known) >= KNOWN:
            known.clear()
        known[what] = java.forgotten
    except Exception:
        log.warning("the plan of '%s' could not be rehearsed", query.id, exc_info=True)
    finally:
        store.disk.delete_folder(folder.reference)


class _Rehearsal:
    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        region: RegionId,
        deployment: Deployment,
        query: Query,
        folder: Place,
    ) -> None:
        self._spark, self._store, self._region, self._query, self._folder = spark, store, region, query, folder
        known = replace(deployment, queries={**deployment.queries, query.id: query})
        self._shape, self._steps = query.shape, 0
        self._queries, self._streams = deployment.queries, deployment.streams
        here = alone(known, region, query.id)
        self._tables, self._progress = Tables(spark, region, self._shape, here), Progress(self._shape, here)
        self._memory = Memory(WatermarkTracker(), MigrationLedger(region, self._shape.plan, Epoch(0)))

    def run(self) -> None:
        newest = {index: self._newest(scan.stream) for index, scan in self._shape.plan.scans}
        times = [time for found in newest.values() for _, time in found]
        half = ENTRIES // 2
        for part in (slice(0, half), slice(half, ENTRIES)):
            self._step(self._work({index: [s for s, _ in found[part]] for index, found in newest.items()}))
        self._compute()
        self._take_over()
        if times:
            for place, source in self._heard():
                self._memory.book.hear(place, source, Mark(1, max(times)))
        self._step(self._work({index: [s for s, _ in found[-1:]] for index, found in newest.items()}))

    def _compute(self) -> None:
        """The states that the version before will not have, of rows as they are in the others."""
        old = self._queries.get(self._query.inherits or QueryId(""))
        steps = () if old is None else matching(old, self._query, self._streams).recompute
        # What comes since states were made ahead is joined by the same plans.
        made = ComputedStates(
            self._spark, self._query, steps, lambda key: InParts([], list(self._memory.state(key).live))
        )
        for key in made.steps:
            rows = made.parts(key).since.frame
            if isinstance(rows, LazyFrame):
                rows.toArrow()

    def _newest(self, stream: str) -> list[tuple[Segment, int]]:
        """The newest rows, with the time of the newest of each entry."""
        found = self._store.log(source_log(self._region, stream))
        entries = [record for _, record in found.after(max(found.last - 4 * ENTRIES, 0)) if record["segment"]]
        return [(Segment.from_json(one["segment"], self._store), one["newest_us"]) for one in entries[-ENTRIES:]]

    @staticmethod
    def _work(rows: dict[int, list[Segment]]) -> Work:
        work = Work(rows=sum(s.rows for found in rows.values() for s in found))
        work.sources.update({index: found for index, found in rows.items() if found})
        return work

    def _take_over(self) -> None:
        """State comes from the version before, as it will, and meets rows that are there."""
        work, moves = self._work({}), self._memory.moves
        for index, operator in enumerate(self._shape.plan.operators):
            if operator.stateful:
                move = Migration(
                    Epoch(1), self._query.id, index, self._region, self._region, str(HERE), str(HERE), inherits=True
                )
                moves.adopt(Epoch(1), [move])
                sides = range(len(operator.state))
                keys = [StateKey(self._shape.signatures[index], side) for side in sides]
                parts = {key.side: list(self._memory.state(key).live)[:1] for key in keys}
                work.arrived.append(Arrived(move, parts, NEVER, {}))
        self._step(work)

    def _heard(self) -> list[tuple[int, str]]:
        places = range(len(self._shape.plan.operators))
        return sorted({one for place in places for one in self._progress.heard(self._query.id, place)})

    def _step(self, work: Work) -> None:
        self._steps += 1
        folder = self._folder / f"step-{self._steps}"
        markers = {k: Epoch(1) for k in range(len(self._shape.plan.operators))}
        parts = (self._region, self._shape, self._tables, self._progress, self._memory, work, markers)
        Step(Batch(self._spark, folder, *parts)).run()
