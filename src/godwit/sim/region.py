"""One shape in one region, in memory: the region's kernel, and an engine of plain Python instead of Spark's.

What is news, which epoch, what is committed: the kernel decides, the same code as in the runtime. Here are only its
logs, which are lists, and how much of them a step sees. A commit holds everything that outlives a crash.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from godwit.ids import DeviceId, Epoch, QueryId, RegionId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import DEVICE, QUERY, Scan, Shape
from godwit.model.routing import RouteTable
from godwit.protocol import recovery
from godwit.protocol.commit import recall
from godwit.protocol.gathering import Gathering, Patience
from godwit.protocol.handover import EpochChange, Migration
from godwit.protocol.inputs import Arrived, InputPoller, Inputs, PeerCommit, Sent, SourceEntry
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.outbox import messages
from godwit.protocol.session_order import ROUTED, Session
from godwit.protocol.shadows import ShadowKey
from godwit.protocol.watermarks import Mark
from godwit.sim.operators import Row, key_of
from godwit.sim.plan_versions import Shelves
from godwit.sim.schedule import Sight
from godwit.sim.step import SimOutputs, run_operators

Rows = list[Row]
K = TypeVar("K")


class StepCrashed(Exception):  # noqa: N818 - an event, not an error
    """The process died at a moment of its step."""


@dataclass(frozen=True)
class SimCommit:
    """One commit: what others read of it, what came out, and what a restart needs."""

    #: receiver -> (its number, the message)
    messages: Mapping[RegionId, tuple[int, PeerCommit[Rows]]]
    positions: Mapping[str, int]
    results: list[tuple[QueryId, tuple[Any, ...]]]
    late: list[Row]
    arrived: list[Migration]
    #: queries that ended with it -> the positions at which they had begun
    ended: Mapping[QueryId, Mapping[str, int]]
    #: the kernel's memory as JSON: whole or a delta
    memory: Mapping[str, Any]
    #: (operator, input) -> rows
    states: Mapping[tuple[int, int], Rows]
    shadows: Mapping[ShadowKey, Mapping[int, Rows]]
    rooms: Mapping[tuple[Migration, int], Rows]
    #: state that has come and must wait
    pending: tuple[Arrived[Rows], ...]
    #: rows of sessions that wait for the one before
    held: Mapping[Session, Rows]
    #: query -> its watermark where its results leave, if that is here
    promised: Mapping[QueryId, int]
    #: its number among the commits of all regions
    turn: int
    #: its number in its region's log; the commits of others that sinks must have before it
    number: int
    after: Mapping[RegionId, int]
    #: what versions of queries leave with it
    left: Mapping[tuple[QueryId, str], tuple[Mapping[int, Rows], int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """One epoch of the control log."""

    deployment: Deployment
    moves: tuple[Migration, ...] = ()
    #: "region/stream" -> how many entries the source log had
    starts: Mapping[str, int] = field(default_factory=dict)


@dataclass
class LogEntry:
    """One entry of a source log."""

    rows: list[dict[str, Any]]
    marks: dict[str, Mark]


class Surroundings(Protocol):
    """What a runner sees of the world."""

    control: list[Published]
    runners: dict[tuple[RegionId, str], SimRunner]
    now: float
    shelves: Shelves
    #: the commits of all regions so far
    committed: int
    #: whether rows that nobody waits for gather, for as long as that is so
    gathers: bool

    def source_log(self, region: RegionId, stream: StreamId) -> list[LogEntry]: ...


class Logs:
    """The lists that one runner reads, as far as it sees them."""

    def __init__(self, world: Surroundings, region: RegionId, shape: Shape) -> None:
        self._world, self._region, self._shape = world, region, shape
        self.sight = Sight()
        #: a runner is made after this epoch was published, so it never sees less
        self._born = len(world.control) - 1

    def peers(self) -> list[RegionId]:
        return sorted(r for r, key in self._world.runners if key == self._shape.key and r != self._region)

    def messages(self, peer: RegionId, after: int | None) -> Iterator[tuple[int, PeerCommit[Rows]]]:
        how_much = self.sight.peers[self.peers().index(peer) % len(self.sight.peers)]
        return _seen(self._outbox(peer), after or 0, how_much)

    def _outbox(self, peer: RegionId) -> list[PeerCommit[Rows]]:
        return self._world.runners[peer, self._shape.key].outbox.get(self._region, [])

    def epochs(self, after: int, deployment: Deployment, needed: Epoch) -> Iterator[tuple[int, EpochChange]]:
        last = len(self._world.control) - 1
        if not self.sight.control:
            # Sources are read before the control log: an epoch that draws a line in them is not missed.
            lines = [n for n in range(after + 1, last + 1) if any(m.leaves for m in self._world.control[n].moves)]
            last = min(last, max([needed, self._born, *lines]))
        for number in range(after + 1, last + 1):
            published = self._world.control[number]
            yield number, EpochChange(published.deployment, published.moves)

    def start(self, epoch: int, source: str) -> int:
        return self._world.control[epoch].starts.get(source, 0)

    def entries(self, index: int, scan: Scan, after: int | None) -> Iterator[tuple[int, SourceEntry[Rows]]]:
        log = self._world.source_log(self._region, scan.stream)
        for number, entry in _seen(log, after or 0, self.sight.sources):
            yield number, SourceEntry(entry.marks, entry.rows or None)

    def part(self, scan: Scan, rows: Rows, device: str) -> tuple[Rows | None, Rows | None]:
        mine = [row for row in rows if row["device"] == device]
        return [row for row in rows if row["device"] != device] or None, mine or None

    def grown(self, log: str, after: int | None) -> bool:
        kind, _, name = log.partition(":")
        if kind == "control":
            return (after or 0) < len(self._world.control) - 1
        if kind == "peer":
            return (after or 0) < len(self._outbox(RegionId(name)))
        return (after or 0) < len(self._world.source_log(self._region, StreamId(name.partition(":")[2])))

    def oldest(self) -> tuple[int, Deployment]:
        return 0, self._world.control[0].deployment


class SimRunner:
    """One shape in one region."""

    def __init__(self, world: Surroundings, region: RegionId, shape: Shape) -> None:
        self.world, self.region, self.shape = world, region, shape
        self.commits: list[SimCommit] = []
        #: receiver -> the messages for it
        self.outbox: dict[RegionId, list[PeerCommit[Rows]]] = {}
        #: commits whose arrivals were reported to the coordinator
        self.reported = 0
        self.logs = Logs(world, region, shape)
        self.poller: InputPoller[Rows] = InputPoller(region, shape, self.logs)
        everything = Patience(float("inf"), sys.maxsize, sys.maxsize)
        self.gathering: Gathering[Rows] = Gathering(region, shape, self.logs, everything)
        self.kernel: RegionKernel
        #: (operator, input) -> rows
        self.states: dict[tuple[int, int], Rows]
        self.shadows: dict[ShadowKey, dict[int, Rows]]
        self.rooms: dict[tuple[Migration, int], Rows]
        self.pending: list[Arrived[Rows]]
        self.held: dict[Session, Rows]
        self.recover()

    def step(self, sight: Sight = Sight(), crash: str = "") -> bool:  # noqa: B008 - a frozen value
        """One micro-batch; whether it committed."""
        kernel, inputs, now = self.kernel, Inputs[Rows](), self.world.now
        self.world.shelves.make_ahead(self)
        due = kernel.next_due(now)
        inherited = self._inherited()
        if not inherited and not self.poller.waiting(kernel.positions, kernel.fenced) and (due is None or due > now):
            return False
        if self.world.gathers and not (inherited or self.pending) and (due is None or due > now):
            self.logs.sight = Sight()
            if self.gathering.until(kernel, now) is not None:
                return False
        self.logs.sight = sight
        self.poller.poll(kernel.positions, kernel.deployment, kernel.fenced, inputs)
        inputs.arrived = [*self.pending, *(Arrived(*parcel) for parcel in inputs.parcels), *inherited]
        decision = kernel.take_in(inputs, now)
        if not decision.commit:
            return False
        self._die(crash, "polled")
        came, inputs.arrived = inputs.arrived, kernel.admit(inputs.arrived, decision.markers)
        copied = {key for key, shadow in kernel.moves.shadows.items() if not shadow.dropped}
        self.shadows = {key: parts for key, parts in self.shadows.items() if key in copied}
        taken = {arrived.move for arrived in inputs.arrived}
        self.pending = [arrived for arrived in came if arrived.move not in taken]
        self._ways: dict[tuple[QueryId, int, DeviceId | None], RouteTable] = {}
        for query, _ in decision.ended:
            self._forget(query)
        outputs = run_operators(self, inputs, decision.markers)
        self._die(crash, "staged")
        number = len(self.commits) + 1
        made = kernel.commit(inputs, decision, number, outputs.receivers)
        found = messages(made, number, outputs.channels, outputs.handovers)
        numbered = {receiver: (made.messages[receiver], message) for receiver, message in found.items()}
        arrived = [arrived.move for arrived in inputs.arrived]
        results, memory = (outputs.results, outputs.late, arrived), made.to_json()["protocol"]
        states, shadows, rooms = _copied(self.states), deepcopy(self.shadows), _copied(self.rooms)
        public = (numbered, made.positions, *results, made.ended, memory)
        kept = states, shadows, rooms, tuple(self.pending), _copied(self.held)
        self.world.committed += 1
        told = self.world.committed, number, made.after
        self.commits.append(SimCommit(*public, *kept, self._promised(), *told, outputs.left))
        self._die(crash, "committed")
        self._publish()
        return True

    def _promised(self) -> dict[QueryId, int]:
        """How far the watermark of each query has come where its results leave: a derived stream would say so."""
        kernel, sink = self.kernel, len(self.shape.plan.operators) - 1
        clocks = kernel.progress.clocks(kernel.book, sink)
        return {q: c for q, c in clocks.items() if self.region in kernel.deployment.owners(kernel.queries[q], sink)}

    def _publish(self) -> None:
        """The messages of the last commit, as far as they are not there yet, and what versions leave with it."""
        for place, found in self.commits[-1].left.items():
            self.world.shelves.left.setdefault(place, found)
        for receiver, (number, message) in self.commits[-1].messages.items():
            log = self.outbox.setdefault(receiver, [])
            if number > len(log):
                assert number == len(log) + 1, f"a message to {receiver} is missing before {number}"
                log.append(message)

    def _inherited(self) -> list[Arrived[Rows]]:
        """State that versions of queries before ours have left, once all of it is there."""
        known = {arrived.move for arrived in self.pending}
        missing = [move for move in self.kernel.moves.incoming if move.inherits and move not in known]
        found = (self.world.shelves.arrived(self.kernel.whole, move) for move in missing)
        return [one for one in found if one is not None]

    def _forget(self, query: QueryId) -> None:
        self.states = {place: [r for r in rows if r[QUERY] != query] for place, rows in self.states.items()}
        self.shadows = {key: parts for key, parts in self.shadows.items() if key[0] != query}
        self.rooms = {room: rows for room, rows in self.rooms.items() if room[0].query != query}

    @staticmethod
    def _die(crash: str, moment: str) -> None:
        if crash == moment:
            raise StepCrashed

    def route(self, index: int, rows: Iterable[Row], outputs: SimOutputs) -> Rows:
        """Stage what goes to other regions; returns what stays."""
        consumer, side = self.shape.plan.consumer(index)
        local = self.shape.plan.is_local(consumer)
        stay: Rows = []
        away: dict[RegionId, Rows] = {}
        for row in rows:
            if ROUTED in row:  # it has crossed regions once, and leaves here
                stay.append(row)
                continue
            table = self._way_on(row[QUERY], consumer, row.get(DEVICE) if local else None)
            key = key_of(self.shape.plan.operators[consumer], side, row) if table.divided else ()
            for to in table.route_of(key).receivers:
                (stay if to == self.region else away.setdefault(to, [])).append(row)
        outputs.channels += [Sent(to, consumer, side, part) for to, part in away.items()]
        return stay

    def _way_on(self, query: QueryId, operator: int, device: DeviceId | None) -> RouteTable:
        key = (query, operator, device)
        if key not in self._ways:
            known = self.kernel.queries[query]
            self._ways[key] = self.kernel.deployment.route(known, operator, device, self.region)
        return self._ways[key]

    def recover(self) -> None:
        """Stand where the last commit stands."""
        self.logs.sight = Sight()
        if not self.commits:
            self.states, self.shadows, self.rooms, self.pending, self.held = {}, {}, {}, [], {}
            self.kernel = recovery.begin(self.region, self.shape, self.logs)
            return
        self.world.shelves.crashed(self.region)
        self._publish()
        last = self.commits[-1]
        memories = [commit.memory for commit in self.commits[last.memory["snapshot"] - 1 :]]
        memory = recall(None, json.loads(json.dumps(memories)))
        assert memory is not None
        deployment = self.world.control[memory.positions["control"]].deployment
        self.kernel = recovery.recover(self.region, self.shape, self.logs, deployment, memory)
        self.states, self.rooms = _copied(last.states), _copied(last.rooms)
        self.shadows = {key: _copied(parts) for key, parts in last.shadows.items()}
        self.pending, self.held = list(last.pending), _copied(last.held)

    def start_of(self, query: QueryId) -> Mapping[str, int] | None:
        """The positions at which a query began here, running or ended; None: it never did."""
        known = self.kernel.start_positions.get(query)
        return known or next((c.ended[query] for c in self.commits if query in c.ended), None)


def _seen(log: list[Any], after: int, how_much: int) -> Iterator[tuple[int, Any]]:
    """What a step sees past a number: all, half, or nothing."""
    new = len(log) - after
    end = after + (new if how_much >= 2 else (new + 1) // 2 if how_much == 1 else 0)
    return ((number + 1, log[number]) for number in range(after, end))


def _copied(states: Mapping[K, Rows]) -> dict[K, Rows]:
    return {place: list(rows) for place, rows in states.items()}
