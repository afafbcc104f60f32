"""State recreation: an instance's state, made anew from the rows that the sources' logs still have (upstream backup).

The operators below the instance run once more, over these rows and for this query alone, with a memory of their own;
what they leave in it is the state. ISQD, Section 7.2.4, tells three cases apart by the work that windows add:

    best       none: the state is built, no window is triggered
    average    every second buffer triggers the windows (pairs, results), whose output is thrown away
    worst      every buffer does

A buffer is here one entry of a source log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from godwit.engine.lazy_frame import Frame
from godwit.ids import DeviceId, Epoch, NodeId, RegionId, SiteId
from godwit.model.deployment import Deployment, instance_id
from godwit.model.plan import Aggregate, Join, Operator
from godwit.protocol.handover import MigrationLedger, Move
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker
from godwit.region.poll import Parts, Work
from godwit.region.routing_tables import Tables
from godwit.region.state import State
from godwit.region.step import Memory, Step
from godwit.storage.log import Segment
from godwit.storage.names import source_log
from godwit.storage.place import Place

if TYPE_CHECKING:
    from godwit.region.runner import Runner

#: case -> of how many buffers the last one triggers the windows; None: none does
TRIGGERS: dict[str, int | None] = {"best": None, "average": 2, "worst": 1}
HERE = SiteId("here")
Carry = Callable[[list[Segment]], list[Segment]]


@dataclass(frozen=True)
class Buffer:
    """Rows of one entry of a source log."""

    entered: float
    newest_us: int
    scan: int
    segment: Segment
    region: str


def rebuild(parcel: Any, runner: Runner, folder: Place, case: str, carry: Carry) -> Parts:
    """The parts of a state that was left behind. `carry` brings segments over the links."""
    move = Move.from_json(parcel["move"])
    found = _brought(list(_buffers(parcel, runner, move)), runner, carry)
    scratch = _Scratch(runner, move, folder)
    every = TRIGGERS[case]
    for part in _batches(found, every):
        scratch.take(part)
        if every is not None:
            scratch.trigger(min(max(b.newest_us for b in part), parcel["clock"]))
    return scratch.close(parcel["clock"])


def _batches(found: list[Buffer], every: int | None) -> Iterator[list[Buffer]]:
    size = every or max(len(found), 1)
    return (found[k : k + size] for k in range(0, len(found), size))


def _buffers(parcel: Any, runner: Runner, move: Move) -> Iterator[Buffer]:
    """The rows to read again, where they are; entries whose rows are all dead by now are passed over."""
    reach = _reach(runner.shape.plan.operators[move.operator])
    alive = NEVER if reach is None or parcel["clock"] == NEVER else parcel["clock"] - reach
    for region, parts in parcel["replay"].items():
        for part in parts:
            log = runner.store.log(source_log(region, part["stream"]))
            for number, record in log.after(part["from"]):
                if number > part["to"]:
                    break
                if record["segment"] is not None and record["newest_us"] >= alive:
                    segment = Segment.from_json(record["segment"], runner.store)
                    yield Buffer(record["entered"], record["newest_us"], part["scan"], segment, region)


def _brought(found: list[Buffer], runner: Runner, carry: Carry) -> list[Buffer]:
    """All buffers, here, in the order in which their rows entered."""
    afar = [buffer for buffer in found if buffer.region != runner.region]
    here = [buffer for buffer in found if buffer.region == runner.region]
    here += [replace(b, segment=s) for b, s in zip(afar, carry([b.segment for b in afar]), strict=True)]
    return sorted((buffer for buffer in here if buffer.segment.rows), key=lambda buffer: buffer.entered)


def _reach(operator: Operator) -> int | None:
    """How far behind the clock rows lie that may still be part of the state; None: as far as there are rows."""
    match operator:
        case Join():
            return max(operator.left_lag_us - operator.lower_us, operator.right_lag_us + operator.upper_us) + 1
        case Aggregate() if operator.window.kind != "session":
            return operator.window.size_us + operator.lag_us + 1
        case _:
            return None


class _Scratch:
    """The query's operators up to the instance, alone in a region, with a memory that nobody else sees."""

    def __init__(self, runner: Runner, move: Move, folder: Place) -> None:
        self._runner, self._index, self._folder = runner, move.operator, folder
        self._query = runner.deployment.queries[move.query]
        deployment = _alone(runner.deployment, runner.region, self._query.id)
        shape = runner.shape
        self._tables = Tables(runner.spark, runner.region, shape, deployment)
        self._progress = Progress(shape, deployment)
        self._memory = Memory(WatermarkTracker(), MigrationLedger(runner.region, shape.plan, Epoch(0)))
        self._triggered = NEVER
        self._steps = 0

    def take(self, buffers: list[Buffer]) -> None:
        """Build state of these rows. No clock goes on: none of them can be late."""
        work = Work(rows=sum(b.segment.rows for b in buffers))
        for buffer in buffers:
            work.sources.setdefault(buffer.scan, []).append(buffer.segment)
        self._made = self._run(self._memory, work)

    def trigger(self, clock: int) -> None:
        """Compute what the windows would have put out, and throw it away; the state stays as it is."""
        if isinstance(self._runner.shape.plan.operators[self._index], Join):
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
        sides = len(self._runner.shape.plan.operators[self._index].inputs)
        return {side: list(self._memory.state(self._index, side).live) for side in range(sides)}

    def _tell(self, memory: Memory, clock: int) -> None:
        for place, source in self._progress.heard(self._query.id, self._index):
            memory.book.hear(place, source, Mark(1, clock))

    def _run(self, memory: Memory, work: Work) -> Frame | None:
        self._steps += 1
        folder = self._folder / f"step-{self._steps}"
        plan = self._runner.shape.plan
        markers = {k: Epoch(0) for k in range(len(plan.operators))}
        parts = (self._runner.region, self._runner.shape, self._tables, self._progress, memory, work, markers)
        return Step(self._runner.spark, folder, *parts).run_through(self._index)


def _compute(made: Frame | None) -> None:
    if made is not None:
        made.write.format("noop").mode("overwrite").save()


def _alone(deployment: Deployment, region: RegionId, query: Any) -> Deployment:
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
    )
