"""The kernel: every protocol decision of one (region, shape). Pure; the region's runner and the simulator both run it.

    poll (`inputs.py`) -> take_in: what is news, which epoch, which marks count, is a commit due?
                       -> the engine runs the operators; `release` says how far each watermark goes
                       -> commit: what others read and a restart needs (`commit.py`)

It knows no files, threads, wall clock or Spark; time is an argument. If a micro-batch fails, its kernel is thrown away
and another is made from the last commit (`recovery.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from godwit.ids import DeviceId, Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query, Scan, Shape
from godwit.model.routing import RouteTable
from godwit.protocol import outbox
from godwit.protocol.commit import ProtocolCommit, is_due
from godwit.protocol.handover import EpochChange, Migration, sinks_between
from godwit.protocol.idle import IdleSources, limit_of
from godwit.protocol.inputs import CONTROL, Arrived, Heard, Inputs, peer_log
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.memory import Failure, MemoryDelta, Snapshot, difference
from godwit.protocol.progress import Progress, Released, Watermarks, releasing
from godwit.protocol.session_order import SessionOrder
from godwit.protocol.watermarks import FOREVER, NEVER, Mark, WatermarkTracker, split_source


@dataclass(frozen=True)
class Decision:
    """What follows from the input of a micro-batch."""

    #: whether it must be run and committed; otherwise a restart would read the same again and pass it over again
    commit: bool
    #: how far each operator is drained here after it
    markers: Mapping[int, Epoch]
    #: queries that ended, and the epoch that ended each
    ended: tuple[tuple[QueryId, Epoch], ...] = ()
    #: epochs at which instances of the shape changed region
    moved: tuple[Epoch, ...] = ()
    #: hand-overs from regions that are lost: their state does not come
    lost: tuple[Migration, ...] = ()


class RegionKernel:
    """What one region knows and decides about one shape."""

    def __init__(self, region: RegionId, shape: Shape, deployment: Deployment, memory: Snapshot | None = None) -> None:
        memory = memory or Snapshot()
        self.region, self.shape = region, shape
        #: queries that cannot be run, and why; as far as the last commit says so, too
        self.failed = dict(memory.failed)
        self._committed_failed = set(self.failed)
        #: the newest epoch, and the same without the queries that failed
        self.whole, self.deployment = deployment, deployment.without(self.failed)
        self.book = WatermarkTracker(memory.marks)
        moves = sorted(memory.outgoing), sorted(memory.incoming)
        known = (dict(memory.owners), dict(memory.resumed))
        self.moves = MigrationLedger(region, shape.plan, deployment.epoch, dict(memory.drained), *moves, *known)
        self.moves.shadows.update(memory.shadows)
        self.moves.answered.update(memory.answered)
        self.released: Released = {}
        for (operator, query), clock in memory.released.items():
            self.released.setdefault(operator, {})[query] = clock
        #: (scan, source, session) -> the newest mark that came in here; one that is over goes once it is published
        self.own_marks = dict(memory.own_marks)
        self.positions = dict(memory.positions)
        #: query -> the positions at which it began here
        self.start_positions = dict(memory.starts)
        self.published = dict(memory.published)
        self.fenced = frozenset(memory.fenced)
        #: positions of the last commit: where a restart would begin
        self._committed = self.positions
        #: receiver -> the number of the last message for it; those that know what was announced
        self.outbox = dict(memory.outbox)
        self._informed = self.outbox.keys() - self.fenced
        #: of them, those that were not told how far sources have come, because they kept no clocks
        self._unaware: set[RegionId] = set()
        self._idle = IdleSources(shape)
        #: (peer, its message) that the next ones of other peers come behind
        self._first: list[tuple[RegionId, int]] = []
        self.order = SessionOrder(shape.plan, self.book, memory.held, memory.behind)
        self.order.idle = self.unemployed
        #: the memory as the last commit of this kernel left it, and that commit's number of the last whole one
        self._base: Snapshot | None = None
        self._snapshot = 0
        #: own marks and released watermarks that others know of
        self._announced: dict[tuple[int, str, int], Mark] = {}
        self._announce_all = True
        self._ended: dict[QueryId, Mapping[str, int]] = {}
        #: whether the shape runs in this region, as far as it has heard
        self._joined = bool(memory.starts)
        #: the last epoch at which regions came or went: who has come knows of no older move, but others wait for its
        #: word on it, and for that of those who must hear it first
        self._met = deployment.epoch if self._joined else Epoch(0)
        #: moves to here that rows wait for, as far as their sources were asked to send the state now
        self._asked: set[Migration] = set()
        self._asking: list[Migration] = []
        #: the last micro-batch has changed what the next one may do, whatever comes in
        self._go_on = False
        #: how many moves it had to send when the micro-batch began
        self._unsent = 0
        #: the route tables of operators whose keys are divided
        self._divided: Mapping[tuple[QueryId, int], RouteTable | None] = {}
        #: versions to come whose missing states were made here, as far as they can be -> why they cannot be, or "";
        #: whoever runs the operators says it, and a restart forgets it
        self.made_ahead: dict[QueryId, str] = {}
        self._arrange(None)

    # --- taking in

    def take_in(
        self, inputs: Inputs[Any], now: float, read_ahead: float = math.inf, announced: Collection[Migration] = ()
    ) -> Decision:
        """Adopt, apply and decide. `read_ahead`: records that may be read without saying so in a commit; `announced`:
        hand-overs whose state is on its way here."""
        self._idle.mark(inputs, self.own_marks, self.deployment, now)
        self.moves.wanted.update(move for move in inputs.wanted if move in self.moves.outgoing)
        rows = bool(inputs.sources or inputs.channels or inputs.arrived or inputs.parcels or inputs.own_marks)
        news = rows or self._any_concerns(inputs.changes) or self.failed.keys() != self._committed_failed
        ended, lost = self._adopt(inputs.changes, announced)
        news = self._keep_order(inputs) or news
        news = self._apply(inputs) or news
        inputs.let_out = self.moves.drained_sinks(self.fenced)
        news = news or bool(inputs.let_out)
        if elsewhere := self._failed_elsewhere(inputs):
            news, at = True, Epoch(self.whole.epoch + 1)
            ended += [(query, at) for query in self.exclude(elsewhere)]
        self._forget_departed()
        self._first = inputs.behind
        self._unsent = len(self.moves.outgoing)
        moved = tuple(c.deployment.epoch for c in inputs.changes if c.moves_of(self.shape.key))
        members = self.members(inputs.peers)
        markers = self.moves.markers(members)
        commit = (
            news
            or self._newcomers(members)
            or self._must_publish(markers)
            or self._far_ahead(inputs.positions) > read_ahead
        )
        if not commit:
            self.positions = inputs.positions
            self._go_on = False
        return Decision(commit, markers, tuple(ended), moved, tuple(lost))

    def next_due(self, now: float) -> float | None:
        """When something is to be done without any input: a source becomes idle, state may go or be taken in. None:
        never."""
        if self._go_on or self.goes_on:
            return now
        return self._idle.next_due(self.own_marks, self.deployment, now)

    @property
    def goes_on(self) -> bool:
        """Whether what had to come first has come: sessions that waited may go on, or a peer's next message."""
        came = (self.positions.get(peer_log(peer), 0) >= number for peer, number in self._first)
        return any(came) or bool(self.order.due())

    def may_gather(self, peers: Iterable[RegionId]) -> bool:
        """Whether rows may wait to be read (`gathering.py`): no state is on its way, nobody waits for our word, and no
        query's results are other's rows, or its watermark others' clock."""
        moving = bool(self.moves.incoming or self.moves.outgoing) or self._go_on or self.goes_on
        failing = self.failed.keys() != self._committed_failed
        return not (moving or failing or self._newcomers(self.members(peers))) and self._alone

    def _newcomers(self, members: set[RegionId]) -> bool:
        """Whether somebody has not been told what all must know."""
        return not self._informed.issuperset(members - {self.region}) or bool(self._unaware & members & self.listeners)

    def members(self, peers: Iterable[RegionId]) -> set[RegionId]:
        """The regions that may still send rows, or be sent some. `peers`: those whose messages can be read."""
        return ({self.region, *peers} | self._running_in) - (self.fenced - {self.region})

    @property
    def unemployed(self) -> bool:
        """Whether no query of the shape is left, as far as this region knows."""
        return not _ids(self.whole, self.shape)

    # --- queries that cannot be run

    def exclude(self, failed: Mapping[QueryId, Failure]) -> set[QueryId]:
        """These queries are not run any more, as if they had been withdrawn; returns those that end here and now: one
        that others tap does so with the last of them."""
        before = self.deployment
        self.failed |= failed
        self.deployment = self.whole.without(self.failed)
        ended = _ids(before, self.shape) - self.deployment.queries.keys()
        for query in ended:
            self._forget(query)
        self._arrange(before)
        return ended

    def _failed_elsewhere(self, inputs: Inputs[Any]) -> dict[QueryId, Failure]:
        """Queries that other regions had to stop, unless they have begun again since."""
        found = {}
        for query, (epoch, reason) in inputs.failed.items():
            known = query in self.queries and query not in self.failed
            if known and self.start_positions.get(query, {}).get(CONTROL, 0) < epoch:
                found[query] = Failure(epoch, reason)
        return found

    def _running(self, whole: Deployment) -> Deployment:
        """The queries of an epoch that are run; one that was withdrawn since is no longer known as failed."""
        self.whole = whole
        gone = {q for q, why in self.failed.items() if q not in whole.queries and whole.epoch > why.epoch}
        self.failed = {q: why for q, why in self.failed.items() if q not in gone}
        return whole.without(self.failed)

    def _any_concerns(self, changes: Sequence[EpochChange]) -> bool:
        before = self.whole
        for change in changes:
            if self._concerns(before, change):
                return True
            before = change.deployment
        return False

    def _concerns(self, before: Deployment, change: EpochChange) -> bool:
        """Whether an epoch changes anything for this shape."""
        after = change.deployment
        old, new = _ids(before, self.shape), _ids(after, self.shape)
        suspended = any((q in before.parked) != (q in after.parked) for q in new)
        plans = any(_changes_plan(before.queries[q], before, after) for q in old & new)
        concerned = old != new or suspended or plans or bool(change.moves_of(self.shape.key))
        return concerned or change.fenced != self.fenced

    def _must_publish(self, markers: Mapping[int, Epoch]) -> bool:
        """Whether others, or an instance here, wait for this region to be drained further than it last said."""
        latest = max(self.moves.latest(), self._met)
        waited_for = any(self.published.get(k, Epoch(0)) < min(latest, e) for k, e in markers.items())
        complete = self.moves.unacknowledged(markers, self._readers_of)
        return waited_for or bool(self.moves.ready(markers)) or bool(complete)

    def _far_ahead(self, positions: Mapping[str, int]) -> int:
        """Others keep what this region has not committed to have read; so it must, now and then, even if idle."""
        return max((n - self._committed.get(name, 0) for name, n in positions.items()), default=0)

    # --- epochs

    def _adopt(
        self, changes: Sequence[EpochChange], announced: Collection[Migration]
    ) -> tuple[list[tuple[QueryId, Epoch]], list[Migration]]:
        """Work under the newest epoch from now on; returns the queries that ended, and hand-overs that never come."""
        first = self.deployment
        ended: list[tuple[QueryId, Epoch]] = []
        lost: list[Migration] = []
        for change in changes:
            before, after = self.deployment, self._running(change.deployment)
            moves = [m for m in change.moves_of(self.shape.key) if m.query not in self.failed]
            moves += sinks_between(before, after, self.shape.key) if self.order.applies else []
            self.moves.adopt(after.epoch, moves)
            for region in change.fenced - self.fenced:
                lost += self.moves.fence(region, announced)
            self.fenced = change.fenced
            self._informed -= self.fenced
            for query in _ids(before, self.shape) - after.queries.keys():
                ended.append((query, after.epoch))
                self._forget(query)
            if before.regions_of(self.shape) != after.regions_of(self.shape):
                self._met = after.epoch
            self._begin_queries(before, after)
            joins = not self._joined and self._joins(after)
            if self.order.applies:
                self._follow_sessions(before, after, joins)
            self._joined = self._joined or joins
            changed = not before.same_sources(after) or _ids(before, self.shape) != _ids(after, self.shape)
            if self._joined and (joins or changed):
                # Of this epoch, not of the newest: a device that has moved since sent rows under its older session.
                self._expect(Progress(self.shape, after), after)
                self._announce_all = True
            self.deployment = after
            coming = {query.id for query in self.coming()} if self.made_ahead else set()
            self.made_ahead = {query: why for query, why in self.made_ahead.items() if query in coming}
        if changes:
            self._arrange(first)
        return ended, lost

    def coming(self) -> list[Query]:
        """Versions that queries of the shape are to go over to."""
        mine = self.deployment.of_shape(self.shape.key)
        return [query.successor for query in mine if query.successor is not None]

    def _follow_sessions(self, before: Deployment, after: Deployment, joins: bool) -> None:
        """Without queries nobody says the ends of sessions, so nothing waits, and a query begins with those of now."""
        self.order.idle = not _ids(after, self.shape)
        if joins:
            self._expect_earlier(before, after)
        elif not _ids(before, self.shape):
            for scan, source in list(self.book.known):
                self.book.forget(source, scan)

    def _expect_earlier(self, before: Deployment, after: Deployment) -> None:
        """A region that begins with a device's session hears of the end of the one before: who ends it knows of us."""
        for scan, source, session in Progress(self.shape, before).expected():
            device = DeviceId(split_source(source)[1])
            if after.stays.get(device) == self.region and after.sessions.get(device, 1) > session:
                self.book.expect(scan, source, session)

    def _joins(self, after: Deployment) -> bool:
        """Whether the shape runs here from this epoch on: what earlier ones expected, others have waited for."""
        return bool(_ids(after, self.shape)) and self.region in after.regions_of(self.shape)

    def _begin_queries(self, before: Deployment, after: Deployment) -> None:
        for query in after.of_shape(self.shape.key):
            if query.id not in before.queries:
                self.start_positions[query.id] = self._start(after)
                if _ids(before, self.shape) and not after.receivers(query) <= before.regions_of(self.shape):
                    # It begins in a region that cannot know yet what others have not read of their sources.
                    self.moves.resumed[query.id] = after.epoch
            if before.suspended(query.id) and not after.suspended(query.id):
                self.moves.resumed[query.id] = after.epoch
        for gone in [q for q in self.start_positions if q not in after.queries]:
            self._ended[gone] = self.start_positions.pop(gone)

    def _start(self, deployment: Deployment) -> dict[str, int]:
        """Where a query that a deployment brings begins here."""
        sources = {log: n for log, n in self.positions.items() if log.startswith("source:")}
        return {**sources, CONTROL: int(deployment.epoch) - 1}

    def _forget(self, query: QueryId) -> None:
        self.moves.forget(query)
        for clocks in self.released.values():
            clocks.pop(query, None)
        for source in {source for _, source in self.book.known}:
            if any(query == name for _, name in releasing(source)):
                self.book.forget(source)

    def _arrange(self, before: Deployment | None) -> None:
        """Derive from the deployment what every micro-batch asks for. `before`: the one it was last derived from."""
        now = self.deployment
        self.queries: dict[QueryId, Query] = {query.id: query for query in now.of_shape(self.shape.key)}
        self.moves.ends = {query.id: Epoch(query.until) for query in self.queries.values() if query.until}
        devices = before is None or not before.same_sources(now) or before.devices.keys() != now.devices.keys()
        tables = {
            place: now.routes(self.queries[place[0]], place[1]) for place in now.key_routes if place[0] in self.queries
        }
        divided, self._divided = tables != self._divided, tables
        if devices or divided or before is None or {q.id: q for q in before.of_shape(self.shape.key)} != self.queries:
            scans = [key for key in self.book.known if isinstance(self.shape.plan.operators[key[0]], Scan)]
            self._departing = {key for key in scans if not self._is_known(key[1])}
            self.progress = Progress(self.shape, now, self._departing)
            if self._joined:
                self._expect(self.progress, now)
        stateful = [i for i, operator in enumerate(self.shape.plan.operators) if operator.stateful]
        sink = len(self.shape.plan.operators) - 1
        waits = [(q, i) for q in self.queries.values() for i in (*stateful, *([sink] if q.target is not None else []))]
        #: where operators that wait for watermarks live, or a derived stream's clock is made
        self.listeners = frozenset(region for query, i in waits for region in now.owners(query, i))
        self._running_in = now.regions_of(self.shape)
        bound = any(q.target or q.cut is not None or q.until or q.successor for q in self.queries.values())
        idle = any(limit_of(now, scan.stream) is not None for _, scan in self.shape.plan.scans)
        self._alone = not (bound or idle)

    def _expect(self, progress: Progress, deployment: Deployment) -> None:
        for scan, source, session in progress.expected():
            self.book.expect(scan, source, session)
            if deployment.stays[DeviceId(split_source(source)[1])] == self.region:
                # Others must wait for what it sends here from now on, read or not.
                self.own_marks.setdefault((scan, source, session), Mark(session, NEVER))

    # --- marks and markers

    def _keep_order(self, inputs: Inputs[Any]) -> bool:
        """Sessions that have waited go on, others begin to wait, by what was heard before; whether there are any."""
        if not self.order.applies:
            return False
        self.order.hear(inputs.commits)
        held = inputs.hold_back(self.order.waits)
        inputs.let_in = self.order.due()
        said = [(scan, source, self.order.held.pop((scan, source, n))) for scan, source, n in inputs.let_in]
        inputs.marks[:0], inputs.own_marks[:0] = said, said
        for one in held:
            self.order.hold(*one)
        self._hear_ends(inputs)
        return bool(said or held)

    def _hear_ends(self, inputs: Inputs[Any]) -> None:
        """What is sent from here of a session comes behind the end of the one before, wherever both are read."""
        for peer, marks, numbers in inputs.ends:
            if any(mark.over and self._may_follow_here(source, mark.following) for _, source, mark in marks):
                self.order.ended(peer, {to: number for to, number in numbers.items() if to != self.region})

    def _may_follow_here(self, source: str, session: int) -> bool:
        device = DeviceId(split_source(source)[1])
        moved_on = self.deployment.sessions.get(device, 1) != session
        return bool(session) and (moved_on or self.deployment.stays.get(device) == self.region)

    def _apply(self, inputs: Inputs[Any]) -> bool:
        """Take in what was heard; whether a watermark here may go on by it."""
        news, listening = False, self.region in self.listeners
        for operator, source, mark in inputs.marks:
            if self.counts(operator, source):
                news = news or (listening and self.book.is_news(operator, source, mark))
                self.book.hear(operator, source, mark)
        for operator, source, mark in inputs.own_marks:
            self.own_marks[operator, source, mark.session] = mark
        for region, markers in inputs.markers:
            self.moves.hear(region, markers)
        return news

    def counts(self, operator: int, source: str) -> bool:
        """Nothing is kept of queries that have ended, nor of devices that are gone and forgotten."""
        if known := releasing(source):
            return any(query in self.queries and self.queries[query].begins == since for since, query in known)
        return (operator, source) in self.book.known or self._is_known(source)

    def _is_known(self, source: str) -> bool:
        return self.deployment.knows(DeviceId(split_source(source)[1]))

    def release(self, operator: int, markers: Mapping[int, Epoch]) -> tuple[dict[QueryId, int], dict[QueryId, int]]:
        """(how far a stateful operator had released each query's watermark, how far it does now)."""
        return self._watermarks.release(operator, markers)

    def receive(self, arrived: Arrived[Any]) -> None:
        """The state of an instance that moved here has arrived."""
        self._watermarks.receive(arrived.move, arrived.clock, arrived.answered)
        for source, session in arrived.sessions.items():
            self.book.reached(source, session)

    def ask_for(self, move: Migration) -> None:
        """Rows wait for the state of a move that its source sends at leisure: it is told to send it now."""
        if move.paced and move not in self._asked:
            self._asked.add(move)
            self._asking.append(move)

    def admit(self, came: Sequence[Arrived[Any]], markers: Mapping[int, Epoch]) -> list[Arrived[Any]]:
        """Of the state that has come, what is taken in now; the rest must wait (`MigrationLedger.admits`)."""
        found = []
        for arrived in came:
            gone = arrived.move.query not in self.queries
            if gone or self.moves.admits(arrived.move, markers, self._readers_of(arrived.move)):
                found.append(arrived)
        there = {arrived.move for arrived in found}
        complete = self.moves.unacknowledged(markers, self._readers_of)
        return found + [Arrived(m, {}, NEVER) for m in complete if m not in there]

    def _readers_of(self, move: Migration) -> frozenset[RegionId]:
        """Who reads the results of the operator that a move is of."""
        known = self.queries.get(move.query)
        above, _ = self.shape.plan.consumer(move.operator)
        return frozenset() if known is None else self.deployment.owners(known, above)

    @property
    def _watermarks(self) -> Watermarks:
        return Watermarks(self.deployment, self.progress, self.book, self.moves, self.released)

    # --- the commit

    def commit(
        self, inputs: Inputs[Any], decision: Decision, number: int, addressed: Collection[RegionId] = ()
    ) -> ProtocolCommit:
        """The protocol's part of the commit of that number; the next one is a delta from here. `addressed`: the regions
        that the micro-batch has rows or state for."""
        self.moves.cut(decision.markers)
        self.moves.caught_up(self.released)
        asking, self._asking = tuple(self._asking), []
        self._asked &= set(self.moves.incoming)
        addressed = {*addressed, *(move.source for move in asking)}
        self.positions = self._committed = inputs.positions
        marks, messages = self._announce(inputs, decision, addressed)
        behind = {receiver: told for receiver in messages if (told := self.order.tell(receiver))}
        self.published = dict(decision.markers)
        self._committed_failed = set(self.failed)
        whole = self._base is None or is_due(number - self._snapshot, self._base)
        self._forget_published()
        # (state may have come for keys whose older state has gone only now)
        freed = len(self.moves.outgoing) < self._unsent and bool(self.moves.incoming)
        self._go_on = freed or self._must_publish(self.moves.markers(self.members(inputs.peers)))
        now = self.snapshot()
        delta, self._base = MemoryDelta() if whole else difference(self._base or Snapshot(), now), now
        self._snapshot = number if whole else self._snapshot
        ended, self._ended = self._ended, {}
        public = (self.deployment.epoch, self.positions, decision.markers, marks, self._snapshot)
        memory = (now if whole else None, delta, ended, dict(self.failed))
        return ProtocolCommit(*public, *memory, messages, asking, behind, self.order.committed())

    def _announce(
        self, inputs: Inputs[Any], decision: Decision, addressed: Collection[RegionId]
    ) -> tuple[tuple[Heard, ...], dict[RegionId, int]]:
        """What all others must hear of a commit, and who gets which message."""
        members = self.members(inputs.peers) - {self.region}
        listening = members & self.listeners
        everything = self._announce_all or not {*members, *addressed} <= self._informed
        everything = everything or not self._unaware.isdisjoint(listening)
        marks = self._publish(everything)
        news = everything or any(mark.over for _, _, mark in marks) or bool(decision.moved)
        news = news or decision.markers != self.published or self.failed.keys() != self._committed_failed
        addressed = {*addressed, *listening} if marks else addressed
        to = outbox.receivers(members, self._informed, addressed, news)
        self._unaware = set() if everything else self._unaware | (members - to if marks else set())
        numbers = {region: self.outbox.get(region, 0) + 1 for region in sorted(to)}
        self.outbox |= numbers
        self._informed |= to
        return marks, numbers

    def snapshot(self) -> Snapshot:
        """The whole memory."""
        return Snapshot(
            dict(self.positions),
            dict(self.published),
            dict(self.moves.drained),
            dict.fromkeys(self.moves.outgoing, True),
            dict.fromkeys(self.moves.incoming, True),
            dict(self.moves.owners),
            dict(self.moves.resumed),
            dict(self.book.known),
            dict(self.own_marks),
            {(operator, q): clock for operator, clocks in self.released.items() for q, clock in clocks.items()},
            dict(self.start_positions),
            dict.fromkeys(self.fenced, True),
            dict(self.failed),
            dict(self.outbox),
            dict(self.moves.shadows),
            dict(self.order.held),
            dict(self.order.behind),
            dict(self.moves.answered),
        )

    def _publish(self, everything: bool) -> tuple[Heard, ...]:
        """What others hear from here at first hand: all, or what they have not heard yet."""
        known, now = self._announced, {**self.own_marks, **dict(self._released_here())}
        told = [k for k, mark in now.items() if everything or ((was := known.get(k)) is not mark and was != mark)]
        self._announced, self._announce_all = now, False
        return tuple((operator, source, now[operator, source, session]) for operator, source, session in sorted(told))

    def _released_here(self) -> Iterator[tuple[tuple[int, str, int], Mark]]:
        """Watermarks that stateful operators here have released."""
        for operator, clocks in self.released.items():
            for query, clock in clocks.items():
                if clock == NEVER or query not in self.queries:
                    continue
                name = self._watermarks.name(query, operator)
                if name is not None and self.region in self.deployment.owners(self.queries[query], operator):
                    yield (operator, name, 1), Mark(1, clock)

    def _forget_published(self) -> None:
        """Sessions that are over, now that others know.

        A region that joins expects the sessions of the epoch it joins with: their ends are kept until a later epoch.
        """
        for key in [key for key, mark in self.own_marks.items() if mark.over]:
            device = DeviceId(split_source(key[1])[1])
            now = self.deployment.sessions.get(device, 1) if self.deployment.knows(device) else FOREVER
            if now > key[2]:
                del self.own_marks[key]

    def _forget_departed(self) -> None:
        """Devices that are gone, once all that they sent was heard."""
        for operator, source in list(self._departing):
            mark = self.book.mark(operator, source)
            if mark is None or mark.left:
                self.book.forget(source, operator)
                self._departing.discard((operator, source))


def _changes_plan(query: Query, before: Deployment, after: Deployment) -> bool:
    """Whether its joins let no row go from now on, for which others wait; or the version before it has gone, so that it
    alone says how far results are."""
    keeps = (query.successor is None) != (after.queries[query.id].successor is None)
    return keeps or (query.inherits in before.queries and query.inherits not in after.queries)


def _ids(deployment: Deployment, shape: Shape) -> set[QueryId]:
    return {query.id for query in deployment.of_shape(shape.key)}
