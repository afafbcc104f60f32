"""The coordinator: events in, instructions out. No sockets, threads, clocks or Spark; legal moves are a table.

    idle --batch--> publishing --all acknowledged, last stage--> idle (commit)
                        |  ^ next stage
                        v
                    reverting --all acknowledged--> idle, and the same changes are taken along with the next batch

A reconfiguration is taken back when it can no longer succeed: a site it needs goes, a link its state travels over goes,
or a region that must act does not answer. Everything else that arrives in the middle waits for the next batch.

State on its way does not hold up the commit: hand-overs are announced, and an announced one may be outlived by the
epoch that announced it. Hand-overs follow the chain of owners, so the next reconfiguration need not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    DevicesForgotten,
    EpochCommitted,
    Event,
    HandoverDone,
    Instruction,
    Park,
    PlacedByHand,
    PlacesHinted,
    PlanChanged,
    Publish,
    QueryAdjusted,
    QuerySubmitted,
    QueryWithdrawn,
    Record,
    RegionAcked,
    RegionBack,
    RegionEvacuated,
    RegionLost,
    Request,
    Resume,
    Revert,
    StreamDeclared,
    TimedOut,
)
from godwit.control.monitor import Monitor
from godwit.control.plan_state import Planner
from godwit.control.reconfigurations import ReconfigurationRecord, StateMoved, count
from godwit.control.redeploy.strategy import ChangeBatch, Redeployment
from godwit.control.stage import Stage, back
from godwit.errors import DeploymentError
from godwit.ids import Epoch, NodeId, QueryId, RegionId
from godwit.migration.base import HandOver, Moved, Step, steps
from godwit.migration.key_migrations import RouteKeys
from godwit.model.changes import Change, LinkRemoved, SiteFailed, SiteRemoved
from godwit.protocol.watermarks import session_of

IDLE, PUBLISHING, REVERTING = "idle", "publishing", "reverting"


class Coordinator:
    def __init__(self, planner: Planner, strategy: Redeployment, epoch: Epoch = Epoch(0)) -> None:  # noqa: B008
        self.planner, self._strategy = planner, strategy
        self.phase = IDLE
        self.monitor = Monitor(planner.topology)
        self.epoch, self.stable = epoch, epoch
        self.lost: set[RegionId] = set()
        self.record = ReconfigurationRecord(0, "nothing has happened yet", outcome="committed")
        self._requests: list[Request] = []
        #: a region is back, so that a parked query may find a place
        self._hope = False
        self._running: ChangeBatch | None = None
        self._todo: list[Stage] = []
        self._published: list[Stage] = []
        self._awaiting: set[RegionId] = set()
        self._known: dict[QueryId, None] = {}

    def resume(self, waiting: Iterable[Change]) -> list[Instruction]:
        """Go on after a restart, with the planner as it was: changes that no epoch has brought yet, parked queries."""
        self._known = dict.fromkeys(self.planner.rows.queries)
        self.monitor.add(waiting)
        self._hope = bool(self.planner.parked())
        return self._begin() if self._waiting else []

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event and say what to do about it."""
        return _TABLE[self.phase, type(event)](self, event)

    def together(self, requests: Iterable[Request]) -> list[Instruction]:
        """Several requests in one epoch, while nothing else is under way."""
        assert self.phase == IDLE, self.phase
        for request in requests:
            self._queue(request)
        return self._begin()

    # -- something arrives

    def _queue(self, event: ChangesArrived | Request) -> list[Instruction]:
        if isinstance(event, ChangesArrived):
            self.monitor.add(event.changes)
        else:
            self._check(event)
            self._requests.append(event)
        return []

    def _queue_and_begin(self, event: ChangesArrived | Request) -> list[Instruction]:
        self._queue(event)
        return self._begin()

    def _queue_and_check(self, event: ChangesArrived | Request) -> list[Instruction]:
        self._queue(event)
        if isinstance(event, ChangesArrived):
            why = self._spoiled_by(event.changes)
            if why:
                return self._revert(why)
        return []

    def _check(self, request: Request) -> None:
        """Refuse at once what cannot be meant; what waits counts as done."""
        match request:
            case QuerySubmitted(query):
                if query.id in self._known:
                    msg = f"there is a query '{query.id}' already; withdraw it first or choose another name"
                    raise DeploymentError(msg)
                self._known[query.id] = None
            case PlanChanged():
                for one in request.changes:
                    if one.old not in self._known or one.query.id in self._known:
                        msg = f"'{one.old}' cannot become '{one.query.id}': the one must run, and the other not"
                        raise DeploymentError(msg)
                self._known |= dict.fromkeys(one.query.id for one in request.changes)
            case QueryWithdrawn(query_id):
                if query_id not in self._known:
                    msg = f"there is no query '{query_id}' to withdraw; `godwit status` lists those that run"
                    raise DeploymentError(msg)
                del self._known[query_id]
            case DeviceFeeds(device, streams):
                for stream in streams:
                    if stream not in self.planner.rows.streams:
                        msg = (
                            f"device '{device}' cannot feed '{stream}': that stream was not declared; declare it first"
                        )
                        raise DeploymentError(msg)

    # -- a reconfiguration from beginning to end

    def _begin(self) -> list[Instruction]:
        batch = self._next_batch()
        before = dict(self.planner.parked())
        self.planner.session = session_of(self.epoch + 1)
        stages = self._strategy(self.planner, batch)
        self._forget_unplaced(batch)
        # What has happened to the topology is in the control log, also if no row changes by it.
        todo = [stage for stage in stages if not stage.empty] or (stages[-1:] if batch.changes else [])
        if not todo:
            self.planner.settled()
            return self._begin() if self._waiting else []
        self._running, self._todo, self._published = batch, todo, []
        self.record = ReconfigurationRecord(self.record.number + 1, batch.cause)
        return [*self._parking(before), *self._publish_next()]

    def _forget_unplaced(self, batch: ChangeBatch) -> None:
        """Versions that found no place never ran: they may be asked for again."""
        for request in batch.requests:
            if isinstance(request, PlanChanged) and request.query.id not in self.planner.rows.queries:
                for one in request.changes:
                    self._known.pop(one.query.id, None)

    def _next_batch(self) -> ChangeBatch:
        """Queries that come and go first, in a batch of their own: that one is never taken back, because a region
        drops the state of a query that is withdrawn and begins a new one at the row where it met it."""
        requests, self._requests, self._hope = _netted(self._requests), [], False
        if requests:
            return ChangeBatch(self.planner.topology, (), tuple(requests))
        return ChangeBatch(self.monitor.latest, self.monitor.take(self.planner.topology))

    def _parking(self, before: Mapping[QueryId, str]) -> list[Instruction]:
        now = self.planner.parked()
        made: list[Instruction] = [Park(q, now[q]) for q in sorted(now) if before.get(q) != now[q]]
        gone = [q for q in sorted(before) if q not in now and q in self.planner.rows.queries]
        return [*made, *(Resume(q) for q in gone)]

    def _publish_next(self) -> list[Instruction]:
        stage = self._todo.pop(0)
        self._published.append(stage)
        self.phase, self.epoch = PUBLISHING, Epoch(self.epoch + 1)
        number = (len(self._published), len(self._published) + len(self._todo))
        self._announce(stage)
        parts = (stage.contexts, stage.steps)
        first, last = number[0] == 1, not self._todo
        assert self._running is not None
        changes = self._running.changes if first else ()
        # Keys change routes after all else is placed: what is sent for it is in the last stage.
        requests = tuple(r for r in self._running.requests if (last if isinstance(r, RouteKeys) else first))
        publish = Publish(self.epoch, stage.delta, *parts, number, stage.moves_at(self.epoch), changes, requests)
        return [publish, *self._await_acks()]

    def _announce(self, stage: Stage) -> None:
        self._keep_custody(stage)
        moved = tuple(_moved(step) for step in stage.steps)
        contexts = count(stage.contexts)
        self.record = replace(
            self.record,
            queries=tuple(sorted({*self.record.queries, *stage.queries})),
            epochs=(*self.record.epochs, self.epoch),
            contexts={
                k: self.record.contexts.get(k, 0) + contexts.get(k, 0) for k in {*self.record.contexts, *contexts}
            },
            migrations=(*self.record.migrations, *moved),
            parked=dict(self.planner.parked()),
        )

    def _keep_custody(self, stage: Stage) -> None:
        """Note where state is and goes, now that regions know."""
        custody = self.planner.custody
        for name, node in stage.delta.placement.items():
            if stage.delta.queries.get(name.query, ...) is None:
                custody.forget(name)
            elif node is not None and name in stage.stateful:
                custody.placed(name, node)
        custody.lost.update(stage.lost)
        for step in stage.steps:
            custody.announced(step, self.epoch)

    def _await_acks(self) -> list[Instruction]:
        self._awaiting = set(self.planner.regions - self.lost)
        return self._go_on()

    def _go_on(self) -> list[Instruction]:
        """Next stage, commit, or end of a revert, once all regions have acknowledged."""
        if self._awaiting:
            return []
        if self.phase == REVERTING:
            self.stable = self.epoch
            return self._end("reverted")
        if self._todo:
            return self._publish_next()
        self.planner.settled()
        self.stable = self.epoch
        return [EpochCommitted(self.epoch), *self._end("committed")]

    def _end(self, outcome: str) -> list[Instruction]:
        self.phase, self._running = IDLE, None
        self._todo, self._published = [], []
        made: list[Instruction] = [Record(replace(self.record, outcome=outcome))]
        self.record = replace(self.record, outcome=outcome)
        return [*made, *self._begin()] if self._waiting else made

    @property
    def unpublished(self) -> bool:
        """Whether something that was asked for, or a stage of what is under way, is still to be published."""
        return bool(self._todo) or bool(self.monitor) or bool(self._requests)

    @property
    def _waiting(self) -> bool:
        """Whether there is something to plan."""
        return bool(self.monitor) or bool(self._requests) or self._hope

    # -- back to the last stable epoch

    def _revert(self, reason: str) -> list[Instruction]:
        assert self._running is not None
        published, rows = self._published, self.planner.rows
        before = dict(self.planner.parked())
        self.planner.abandon(0)
        ended = {device for stage in published for device in (*stage.delta.sessions, *stage.delta.gone)}
        sessions = {device: session_of(self.epoch + 1) for device in sorted(ended) if device in rows.devices}
        for device in ended:
            rows.sessions.pop(device, None)
        rows.sessions.update(sessions)
        self.monitor.put_back(self._running.changes)
        moved = tuple(_backwards(m) for s in reversed(published) for m in s.moved if m.source is not None)
        todo = tuple(step for m in moved for step in steps(self.planner.state, m))
        stage = back(published, todo, moved)
        stage = replace(stage, delta=replace(stage.delta, sessions=sessions))
        self.phase, self.epoch, self._todo = REVERTING, Epoch(self.epoch + 1), []
        self.record = replace(self.record, reason=reason)
        self._announce(stage)
        parts = (stage.contexts, stage.steps)
        made = Revert(self.epoch, self.stable, stage.delta, *parts, reason, stage.moves_at(self.epoch))
        return [made, *self._parking(before), *self._await_acks()]

    def _spoiled_by(self, changes: Iterable[Change]) -> str:
        """Why the running reconfiguration can no longer succeed; empty: it can, or it must."""
        if self._final:
            return ""
        needed = frozenset[NodeId]().union(*(s.nodes for s in (*self._published, *self._todo)))
        hops = {
            frozenset(hop) for stage in (*self._published, *self._todo) for m in stage.moved for hop in pairwise(m.path)
        }
        for change in changes:
            match change:
                case SiteRemoved(site) | SiteFailed(site) if NodeId(site) in needed:
                    return f"site '{site}' went in the middle of it"
                case LinkRemoved(a, b) if frozenset((NodeId(a), NodeId(b))) in hops:
                    return f"the link {a} - {b}, over which state travels, went in the middle of it"
        return ""

    @property
    def _final(self) -> bool:
        return self._running is not None and bool(self._running.requests)

    def _needs(self, region: RegionId) -> bool:
        if self._final:
            return False
        topology = self.monitor.latest
        return any(topology.region_of(n) == region for s in (*self._published, *self._todo) for n in s.nodes)

    # -- regions

    def _acked_by(self, event: RegionAcked) -> list[Instruction]:
        # Who answers is not lost, whatever we thought when the time was up.
        made = self._region_back(RegionBack(event.region)) if event.region in self.lost else []
        if made or self.phase == IDLE or event.epoch < self.epoch or event.region not in self._awaiting:
            return made
        self._awaiting.discard(event.region)
        return self._go_on()

    def _region_lost(self, event: RegionLost) -> list[Instruction]:
        self.lost.add(event.region)
        self.planner.ground.lost_regions[event.region] = None
        if self.phase == PUBLISHING and self._needs(event.region):
            return self._revert(f"region '{event.region}' was lost in the middle of it")
        if self.phase == IDLE:
            return []
        self._awaiting.discard(event.region)
        return self._go_on()

    def _region_back(self, event: RegionBack) -> list[Instruction]:
        self.lost.discard(event.region)
        self.planner.ground.lost_regions.pop(event.region, None)
        self._hope = bool(self.planner.parked())
        return self._begin() if self.phase == IDLE and self._waiting else []

    def _timed_out(self, event: TimedOut) -> list[Instruction]:
        if event.epoch != self.epoch:
            return []
        made: list[Instruction] = []
        for region in sorted(self._awaiting):
            if self.epoch == event.epoch or self.phase == REVERTING:
                made += self._region_lost(RegionLost(region))
        return made

    def _handed_over(self, event: HandoverDone) -> list[Instruction]:
        home = self.planner.rows.placement.get(event.instance)
        self.planner.custody.done(event.instance, event.epoch, home)
        return []

    def _nothing(self, event: Event) -> list[Instruction]:
        return []


_REQUESTS = (
    QuerySubmitted,
    RegionEvacuated,
    QueryWithdrawn,
    PlanChanged,
    QueryAdjusted,
    DeviceFeeds,
    DevicesForgotten,
    PlacesHinted,
    PlacedByHand,
    StreamDeclared,
    RouteKeys,
)
#: (phase, event) -> what to do; a pair that is not here is a bug
_TABLE: dict[tuple[str, type], Callable[[Coordinator, Any], list[Instruction]]] = {
    **{(IDLE, e): Coordinator._queue_and_begin for e in (ChangesArrived, *_REQUESTS)},
    **{(PUBLISHING, e): Coordinator._queue_and_check for e in (ChangesArrived,)},
    **{(PUBLISHING, e): Coordinator._queue for e in _REQUESTS},
    **{(REVERTING, e): Coordinator._queue for e in (ChangesArrived, *_REQUESTS)},
    **{(phase, RegionAcked): Coordinator._acked_by for phase in (IDLE, PUBLISHING, REVERTING)},
    **{(phase, HandoverDone): Coordinator._handed_over for phase in (IDLE, PUBLISHING, REVERTING)},
    **{(phase, RegionLost): Coordinator._region_lost for phase in (IDLE, PUBLISHING, REVERTING)},
    **{(phase, RegionBack): Coordinator._region_back for phase in (IDLE, PUBLISHING, REVERTING)},
    **{(phase, TimedOut): Coordinator._timed_out for phase in (PUBLISHING, REVERTING)},
    (IDLE, TimedOut): Coordinator._nothing,
}


def _netted(requests: Iterable[Request]) -> list[Request]:
    """A query that was submitted and withdrawn again before it was read was never there."""
    kept: list[Request] = []
    for request in requests:
        if isinstance(request, QueryWithdrawn):
            submitted = [r for r in kept if isinstance(r, QuerySubmitted) and r.query.id == request.query]
            if submitted:
                kept.remove(submitted[-1])
                continue
        kept.append(request)
    return kept


def _backwards(moved: Moved) -> Moved:
    assert moved.source is not None
    return replace(moved, source=moved.target, target=moved.source, path=tuple(reversed(moved.path)))


def _moved(step: Step) -> StateMoved:
    if isinstance(step, HandOver):
        return StateMoved(step.instance, step.source, step.target, len(step.path) - 1, "hand-over")
    return StateMoved(step.instance, None, step.target, 0, "replay")
