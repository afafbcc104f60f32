"""State recreation: an instance's state, made again from the rows that the sources' logs still have (upstream backup).

The operators below the instance run once more, over these rows and for this query alone, with a memory of their own;
what they leave in it is the state. ISQD, Section 7.2.4, tells three cases apart by the work that windows add:

    best       none: the state is built, no window is triggered
    average    every second buffer triggers the windows (pairs, results), whose output is thrown away
    worst      every buffer does

A buffer is here one entry of a source log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from godwit.engine.arrival import arrived
from godwit.engine.lazy_frame import Frame
from godwit.engine.lazy_frame import made as as_dataframe
from godwit.ids import DeviceId, Epoch, NodeId, RegionId, SiteId
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.plan import Shape
from godwit.model.signature import StateKey
from godwit.protocol.handover import Migration
from godwit.protocol.inputs import arrived_us
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker
from godwit.region.batch import Batch, Memory
from godwit.region.poll import Parts, Work
from godwit.region.routing_tables import Tables
from godwit.region.state import State
from godwit.region.step import Step
from godwit.storage.log import Segment
from godwit.storage.names import source_log
from godwit.storage.place import Place
from godwit.storage.store import Store

#: case -> of how many buffers the last one triggers the windows; None: none does
TRIGGERS: dict[str, int | None] = {"best": None, "average": 2, "worst": 1}
HERE = SiteId("here")
Carry = Callable[[list[Segment]], list[Segment]]


@dataclass(frozen=True)
class RecomputeTarget:
    """The (region, shape) that gets the state, as it was when the state was asked for."""

    spark: SparkSession
    store: Store
    region: RegionId
    shape: Shape
    deployment: Deployment


@dataclass(frozen=True)
class Buffer:
    """Rows of one entry of a source log."""

    entered: float
    newest_us: int
    scan: int
    segment: Segment
    region: str
    #: see `SourceRecord`
    late: Mapping[str, int]


def rebuild(parcel: Any, to: RecomputeTarget, folder: Place, case: str, carry: Carry) -> Parts:
    """The parts of a state that was left behind. `carry` brings segments over the links."""
    move = Migration.from_json(parcel["move"])
    found = _brought(list(_buffers(parcel, to, move)), to, carry)
    scratch = _Scratch(to, move, folder)
    every = TRIGGERS[case]
    for part in _batches(found, every):
        scratch.take(part)
        if every is not None:
            scratch.trigger(min(max(b.newest_us for b in part), parcel["clock"]))
    return scratch.close(parcel["clock"])


def _batches(found: list[Buffer], every: int | None) -> Iterator[list[Buffer]]:
    size = every or max(len(found), 1)
    return (found[k : k + size] for k in range(0, len(found), size))


def _buffers(parcel: Any, to: RecomputeTarget, move: Migration) -> Iterator[Buffer]:
    """The rows to read again, where they are; entries whose rows are all dead by now are passed over."""
    reach = to.shape.plan.operators[move.operator].reach_us
    alive = NEVER if reach is None or parcel["clock"] == NEVER else parcel["clock"] - reach
    for region, parts in parcel["replay"].items():
        for part in parts:
            log = to.store.log(source_log(region, part["stream"]))
            for number, record in log.after(part["from"]):
                if number > part["to"]:
                    break
                by_arrival = dict(to.shape.plan.scans)[part["scan"]].arrival
                newest_us = arrived_us(record["entered"]) if by_arrival else record["newest_us"]
                if record["segment"] is not None and newest_us >= alive:
                    segment = Segment.from_json(record["segment"], to.store)
                    yield Buffer(
                        record["entered"], record["newest_us"], part["scan"], segment, region, record.get("late", {})
                    )


def _brought(found: list[Buffer], to: RecomputeTarget, carry: Carry) -> list[Buffer]:
    """All buffers, here, in the order in which their rows entered."""
    afar = [buffer for buffer in found if buffer.region != to.region]
    here = [buffer for buffer in found if buffer.region == to.region]
    here += [replace(b, segment=s) for b, s in zip(afar, carry([b.segment for b in afar]), strict=True)]
    return sorted((buffer for buffer in here if buffer.segment.rows), key=lambda buffer: buffer.entered)


class _Scratch:
    """The query's operators up to the instance, alone in a region, with a memory that nobody else sees."""

    def __init__(self, to: RecomputeTarget, move: Migration, folder: Place) -> None:
        self._to, self._index, self._folder = to, move.operator, folder
        self._operator = to.shape.plan.operators[move.operator]
        self._query = to.deployment.queries[move.query]
        deployment = alone(to.deployment, to.region, self._query.id)
        shape = to.shape
        self._tables = Tables(to.spark, to.region, shape, deployment)
        self._progress = Progress(shape, deployment)
        self._memory = Memory(WatermarkTracker(), MigrationLedger(to.region, shape.plan, Epoch(0)))
        self._triggered = NEVER
        self._steps = 0

    def take(self, buffers: list[Buffer]) -> None:
        """Build state of these rows. No clock goes on: none of them can be late."""
        work = Work(rows=sum(b.segment.rows for b in buffers))
        for buffer in buffers:
            scan, segment = dict(self._to.shape.plan.scans)[buffer.scan], buffer.segment
            rows = arrived(segment, buffer.entered, buffer.late if scan.late else None) if scan.arrival else segment
            if rows is not None:
                work.sources.setdefault(buffer.scan, []).append(rows)
        self._made = self._run(self._memory, work)

    def trigger(self, clock: int) -> None:
        """Compute what the windows would have put out, and throw it away; the state stays as it is."""
        if self._operator.emits == "arrival":
            _compute(self._made)
            return
        copy = Memory(
            WatermarkTracker(), self._memory.moves, {k: State(list(s.live)) for k, s in self._memory.states.items()}
        )
        copy.let_go[self._index] = {self._query.id: self._triggered}
        self._tell(copy, clock)
        _compute(self._run(copy, Work()))
        self._triggered = max(self._triggered, clock)

    def close(self, clock: int) -> Parts:
        """What is still alive when the clock stands where it stood at the old owner."""
        self._tell(self._memory, clock)
        self._run(self._memory, Work())
        keys = [StateKey(self._to.shape.signatures[self._index], side) for side in range(len(self._operator.state))]
        return {key.side: list(self._memory.state(key).live) for key in keys}

    def _tell(self, memory: Memory, clock: int) -> None:
        for place, source in self._progress.heard(self._query.id, self._index):
            memory.book.hear(place, source, Mark(1, clock))

    def _run(self, memory: Memory, work: Work) -> Frame | None:
        self._steps += 1
        folder = self._folder / f"step-{self._steps}"
        shape = self._to.shape
        markers = {k: Epoch(0) for k in range(len(shape.plan.operators))}
        parts = (self._to.region, shape, self._tables, self._progress, memory, work, markers)
        return Step(Batch(self._to.spark, folder, *parts)).run_through(self._index)


def _compute(made: Frame | None) -> None:
    if made is not None:
        as_dataframe(made).write.format("noop").mode("overwrite").save()


def alone(deployment: Deployment, region: RegionId, query: Any) -> Deployment:
    """One query and all its devices on one site."""
    holistic = range(len(deployment.queries[query].shape.plan.operators))
    devices: dict[DeviceId, SiteId | None] = dict.fromkeys(deployment.devices, HERE)
    return Deployment(
        deployment.epoch,
        {query: deployment.queries[query]},
        {instance_id(query, k): NodeId(HERE) for k in holistic},
        devices,
        {HERE: region},
        streams=deployment.streams,
        feeds=deployment.feeds,
        stays=dict.fromkeys(deployment.stays, region),
    )
