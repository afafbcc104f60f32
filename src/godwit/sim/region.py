"""One shape in one region, in memory: poll the logs, run the operators, commit. A mirror of the runtime's runner.

Clocks, hand-over and progress are the very code that the runtime runs; what is mirrored here is the order of things.
A commit holds the whole memory, so that a crash at any moment leaves the last commit and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from godwit.ids import DeviceId, Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import DEVICE, QUERY, STATEFUL, Query, Scan, Shape
from godwit.protocol.handover import MigrationLedger, Move, moves_between
from godwit.protocol.progress import Progress, released
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker, source_id
from godwit.sim.operators import Row
from godwit.sim.step import Outputs, run_operators

if TYPE_CHECKING:
    from godwit.sim.world import World

#: moments at which a step may die
MOMENTS = ("polled", "staged", "committed")


class Crashed(Exception):  # noqa: N818 - an event, not an error
    """The process died at a moment of its step."""


@dataclass(frozen=True)
class Sight:
    """How much of what is there a step sees: for each peer and for sources 0 (nothing), 1 (half) or 2 (all)."""

    peers: tuple[int, ...] = (2, 2)
    sources: int = 2
    #: False: no more of the control log than it must see
    control: bool = True


@dataclass
class Arrived:
    move: Move
    parts: dict[int, list[Row]]
    clock: int


@dataclass
class Work:
    deployments: list[Deployment] = field(default_factory=list)
    sources: dict[int, list[Row]] = field(default_factory=dict)
    channels: dict[tuple[int, int], list[tuple[list[Row], Epoch]]] = field(default_factory=dict)
    arrived: list[Arrived] = field(default_factory=list)
    marks: list[tuple[int, str, Mark]] = field(default_factory=list)
    own_marks: list[tuple[int, str, Mark]] = field(default_factory=list)
    markers: list[tuple[RegionId, dict[int, Epoch]]] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    newest_epoch: int = 0


@dataclass
class Memory:
    book: WatermarkTracker
    moves: MigrationLedger
    #: (operator, input) -> rows
    states: dict[tuple[int, int], list[Row]] = field(default_factory=dict)
    let_go: dict[int, dict[QueryId, int]] = field(default_factory=dict)
    #: (scan, source, session) -> the newest mark told here at first hand. Of a session that is over until it was told:
    #: a device may come back before the end of its last stay was read, and then both must be told
    own_marks: dict[tuple[int, str, int], Mark] = field(default_factory=dict)


class Runner:
    def __init__(self, world: World, region: RegionId, shape: Shape) -> None:
        self.world, self.region, self.shape = world, region, shape
        self.commits: list[dict[str, Any]] = []
        #: commits whose arrivals the coordinator has been told of
        self.reported = 0
        self.deployment: Deployment
        self.memory: Memory
        self.positions: dict[str, int]
        self.begun: dict[QueryId, dict[str, int]]
        self._ways: dict[tuple[QueryId, int, DeviceId | None], RegionId] = {}
        self.recover()

    # -- the micro-batch

    def step(self, sight: Sight = Sight(), crash: str = "") -> bool:  # noqa: B008 - a frozen value
        """One micro-batch; whether it committed."""
        if not self._news():
            return False
        work = self._poll(sight)
        if not self._worth_a_commit(work):
            self._adopt(work)
            self._hear(work)
            self.positions = work.positions
            return False
        self._die(crash, "polled")
        self._adopt(work)
        self._hear(work)
        markers = self.memory.moves.markers({*self.peers(), self.region})
        outputs = run_operators(self, work, markers)
        self._die(crash, "staged")
        self.commits.append(self._record(work, outputs, markers))
        self.memory.own_marks = dict(self.commits[-1]["own_marks"])
        self.positions = work.positions
        self.memory.moves.hear(self.region, markers)
        self._die(crash, "committed")
        return True

    @staticmethod
    def _die(crash: str, moment: str) -> None:
        if crash == moment:
            raise Crashed

    def peers(self) -> list[RegionId]:
        return sorted(r for r, key in self.world.runners if key == self.shape.key and r != self.region)

    # -- taking in

    def _news(self) -> bool:
        """Whether any log has grown."""
        if self.positions["control"] < len(self.world.control) - 1:
            return True
        for peer in self.peers():
            if self.positions.get(f"peer:{peer}", 0) < len(self.world.runners[peer, self.shape.key].commits):
                return True
        logs = [(i, scan.stream, self.world.source_log(self.region, scan.stream)) for i, scan in self.shape.plan.scans]
        return any(self.positions.get(f"source:{i}:{stream}", 0) < len(log) for i, stream, log in logs)

    def _poll(self, sight: Sight) -> Work:
        work = Work(positions=dict(self.positions))
        for k, peer in enumerate(self.peers()):
            self._take_peer(work, peer, sight.peers[k % len(sight.peers)])
        control = self.world.control
        last = len(control) - 1 if sight.control else max(work.newest_epoch, work.positions["control"])
        work.deployments = [deployment for deployment, _ in control[work.positions["control"] + 1 : last + 1]]
        work.positions["control"] = max(last, work.positions["control"])
        for index, scan in self.shape.plan.scans:
            self._take_source(work, index, scan, sight.sources)
        return work

    def _take_peer(self, work: Work, peer: RegionId, how_much: int) -> None:
        name, log = f"peer:{peer}", self.world.runners[peer, self.shape.key].commits
        start = work.positions.get(name, 0)
        end = start + _share(len(log) - start, how_much)
        for record in log[start:end]:
            work.newest_epoch = max(work.newest_epoch, record["epoch"])
            work.markers.append((peer, record["markers"]))
            work.marks += record["marks"]
            for to, operator, side, rows in record["channels"]:
                if to == self.region:
                    work.channels.setdefault((operator, side), []).append((rows, record["epoch"]))
            mine = (one for one in record["handovers"] if one[0].target == self.region)
            work.arrived += [Arrived(move, parts, clock) for move, parts, clock in mine]
        work.positions[name] = end

    def _take_source(self, work: Work, index: int, scan: Scan, how_much: int) -> None:
        name, log = f"source:{index}:{scan.stream}", self.world.source_log(self.region, scan.stream)
        start = work.positions.get(name, 0)
        end = start + _share(len(log) - start, how_much)
        for entry in log[start:end]:
            for device, mark in entry.marks.items():
                heard = (index, source_id(scan.stream, device), mark)
                work.marks.append(heard)
                work.own_marks.append(heard)
            if entry.rows:
                work.sources.setdefault(index, []).extend(entry.rows)
        work.positions[name] = end

    def _worth_a_commit(self, work: Work) -> bool:
        if work.sources or work.channels or work.arrived or work.own_marks:
            return True
        if self._keeps_clocks() and any(self.memory.book.is_news(*mark) for mark in work.marks):
            return True
        before = self.deployment
        for after in work.deployments:
            old, new = self._ids(before), self._ids(after)
            if old != new or moves_between(before, after, self.shape.key):
                return True
            before = after
        moves = self.memory.moves
        return bool(work.markers) and bool(moves.outgoing or moves.incoming or self._held())

    def _keeps_clocks(self) -> bool:
        stateful = [i for i, operator in enumerate(self.shape.plan.operators) if isinstance(operator, STATEFUL)]
        return any(self.deployment.home(q, i) == self.region for q in self.queries.values() for i in stateful)

    def _held(self) -> bool:
        moves = self.memory.moves
        latest = max((h[-1][0] for h in moves.owners.values()), default=Epoch(0))
        return any(epoch < latest for epoch in moves.markers(self.peers()).values())

    def _ids(self, deployment: Deployment) -> set[QueryId]:
        return {query.id for query in deployment.of_shape(self.shape.key)}

    def _adopt(self, work: Work) -> None:
        for after in work.deployments:
            before = self.deployment
            self.memory.moves.adopt(after.epoch, moves_between(before, after, self.shape.key))
            for query in self._ids(before) - self._ids(after):
                self._forget(query, after.epoch)
            for query in self._ids(after) - self._ids(before):
                self.begun[query] = dict(self.positions)
            if self._ids(after) != self._ids(before) or not before.same_sources(after):
                # Of this epoch, not of the newest: a device that has moved since sent rows under its older session.
                self._expect(Progress(self.shape, after))
            self.deployment = after
        if work.deployments:
            self._arrange()

    def _forget(self, query: QueryId, epoch: Epoch) -> None:
        self.memory.moves.forget(query)
        for let_go in self.memory.let_go.values():
            let_go.pop(query, None)
        for place, rows in self.memory.states.items():
            self.memory.states[place] = [row for row in rows if row[QUERY] != query]
        self.memory.book.forget(released(query))

    def _arrange(self) -> None:
        self._ways = {}
        self.queries: dict[QueryId, Query] = {q.id: q for q in self.deployment.of_shape(self.shape.key)}
        self.progress = Progress(self.shape, self.deployment)
        self._expect(self.progress)

    def _expect(self, progress: Progress) -> None:
        for scan, source, session in progress.expected():
            self.memory.book.expect(scan, source, session)

    def _hear(self, work: Work) -> None:
        for operator, source, mark in work.marks:
            self.memory.book.hear(operator, source, mark)
        for operator, source, mark in work.own_marks:
            self.memory.own_marks[operator, source, mark.session] = mark
        for region, markers in work.markers:
            self.memory.moves.hear(region, markers)

    # -- routing

    def _way_on(self, query: QueryId, operator: int, device: DeviceId | None) -> RegionId:
        key = (query, operator, device)
        if key not in self._ways:
            self._ways[key] = self.deployment.route(self.queries[query], operator, device, self.region)
        return self._ways[key]

    def route(self, index: int, rows: Iterable[Row], outputs: Outputs) -> list[Row]:
        """Stage what goes to other regions; returns what stays."""
        consumer, side = self.shape.plan.consumer(index)
        local = self.shape.plan.is_local(consumer)
        stay: list[Row] = []
        away: dict[RegionId, list[Row]] = {}
        for row in rows:
            to = self._way_on(row[QUERY], consumer, row.get(DEVICE) if local else None)
            if to == self.region:
                stay.append(row)
            else:
                away.setdefault(to, []).append(row)
        outputs.channels += [(to, consumer, side, part) for to, part in away.items()]
        return stay

    # -- the commit

    def _record(self, work: Work, outputs: Outputs, markers: dict[int, Epoch]) -> dict[str, Any]:
        memory = self.memory
        return {
            "epoch": self.deployment.epoch,
            "positions": work.positions,
            "markers": markers,
            "marks": list(self._told()),
            "channels": outputs.channels,
            "results": outputs.results,
            "late": outputs.late,
            "handovers": outputs.handovers,
            "arrived": [arrived.move for arrived in work.arrived],
            "begun": {q: dict(p) for q, p in self.begun.items()},
            "book": {key: dict(sessions) for key, sessions in memory.book._marks.items()},
            "moves": memory.moves.to_json(),
            "states": {place: list(rows) for place, rows in memory.states.items()},
            "let_go": {operator: dict(clocks) for operator, clocks in memory.let_go.items()},
            "own_marks": {key: mark for key, mark in memory.own_marks.items() if not mark.over},
        }

    def _told(self) -> Iterable[tuple[int, str, Mark]]:
        for (scan, source, _), mark in self.memory.own_marks.items():
            yield scan, source, mark
        for operator, let_go in self.memory.let_go.items():
            for query, clock in let_go.items():
                known = self.queries.get(query)
                if clock > NEVER and known is not None and self.deployment.home(known, operator) == self.region:
                    yield operator, released(query), Mark(1, clock)

    # -- after a restart

    def recover(self) -> None:
        if not self.commits:
            self._begin()
            return
        record = self.commits[-1]
        self.deployment = self.world.control[record["positions"]["control"]][0]
        book = WatermarkTracker()
        book._marks = {key: dict(sessions) for key, sessions in record["book"].items()}
        self.memory = Memory(
            book,
            MigrationLedger.from_json(self.region, self.shape.plan, record["moves"]),
            {place: list(rows) for place, rows in record["states"].items()},
            {operator: dict(clocks) for operator, clocks in record["let_go"].items()},
            dict(record["own_marks"]),
        )
        self.positions = dict(record["positions"])
        self.begun = {q: dict(p) for q, p in record["begun"].items()}
        self._arrange()

    def _begin(self) -> None:
        """With the epoch that brought the first query of the shape; sources from where their logs stood then."""
        self.positions, self.begun = {"control": 0}, {}
        self.deployment = self.world.control[0][0]
        for number, (after, starts) in enumerate(self.world.control):
            if self._ids(after):
                for index, scan in self.shape.plan.scans:
                    self.positions[f"source:{index}:{scan.stream}"] = starts.get((self.region, scan.stream), 0)
                break
            self.deployment, self.positions["control"] = after, number
        self.memory = Memory(WatermarkTracker(), MigrationLedger(self.region, self.shape.plan, self.deployment.epoch))
        self._arrange()


def _share(new: int, how_much: int) -> int:
    return new if how_much >= 2 else (new + 1) // 2 if how_much == 1 else 0
