"""One micro-batch under way: what it takes in, what it has staged, and the questions it asks the protocol.

What a (region, shape) remembers of moves and watermarks (`Memory`) is read and changed by micro-batches in this file
only. Everything written is staged: it counts only once the runner's commit names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.engine.size_policy import USUAL, Execution, SizePolicy
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.plan import Operator, Shape
from godwit.model.signature import StateKey
from godwit.protocol.handover import Migration
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.progress import Progress, Watermarks
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker
from godwit.region.poll import Arrived, Work
from godwit.region.replay_ranges import outstanding
from godwit.region.routing_tables import Tables
from godwit.region.state import Room, State
from godwit.storage.log import Segment
from godwit.storage.place import Place
from godwit.storage.state_memory import StateMemory, frozen

#: micro-batches after which it is tried again whether grouping makes few of many rows
TRY_AGAIN = 32


@dataclass
class Memory:
    """What a (region, shape) remembers between micro-batches.

    `book`, `moves`, `let_go` and `own_marks` are the kernel's own (`godwit.protocol.kernel`), which commits them.
    """

    book: WatermarkTracker
    moves: MigrationLedger
    states: dict[StateKey, State] = field(default_factory=dict)
    #: operator -> query -> how far the operator has let the query's clock go
    let_go: dict[int, dict[QueryId, int]] = field(default_factory=dict)
    #: (scan, source, session) -> the newest mark that came in here; one that is over goes once it has been told
    own_marks: dict[tuple[int, str, int], Mark] = field(default_factory=dict)
    #: hand-overs that were announced and whose state is not here yet
    underway: list[dict[str, Any]] = field(default_factory=list)
    #: where state is made again (`replay_ranges.py`): region -> how far its commits were read; epoch -> region -> cut
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    cuts: dict[int, dict[RegionId, dict[str, Any]]] = field(default_factory=dict)
    rooms: dict[Room, State] = field(default_factory=dict)
    #: aggregate -> for how many micro-batches grouping is not worth its while; guesswork, forgotten by a restart
    deferring: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def thawed(kernel: RegionKernel, kept: StateMemory) -> Memory:
        """As a commit has it."""
        return Memory(
            kernel.book,
            kernel.moves,
            {StateKey.parse(key): State(list(live)) for key, live in kept.states.items()},
            kernel.released,
            kernel.own_marks,
            list(kept.rest["underway"]),
            dict(kept.rest["seen"]),
            {int(epoch): dict(known) for epoch, known in kept.rest["cuts"].items()},
            {Room.from_json(json.loads(room)): State(list(waited)) for room, waited in kept.rooms.items()},
        )

    def frozen(self) -> StateMemory:
        """As a commit has it; the kernel's part is committed by the kernel."""
        cuts = {str(epoch): known for epoch, known in outstanding(self.cuts, self.moves.outgoing).items()}
        return StateMemory(
            {str(key): tuple(state.live) for key, state in self.states.items()},
            {json.dumps(room.to_json()): tuple(waited.live) for room, waited in self.rooms.items()},
            {"underway": frozen(self.underway), "seen": frozen(self.seen), "cuts": frozen(cuts)},
        )

    def state(self, key: StateKey) -> State:
        return self.states.setdefault(key, State())

    def forget(self, query: QueryId, epoch: Epoch) -> None:
        """A query is gone, as of an epoch: none of its rows is left."""
        self.rooms = {room: waited for room, waited in self.rooms.items() if room.query != query}
        for state in self.states.values():
            state.leave_out(query, int(epoch))


@dataclass
class Outputs:
    """What a micro-batch has staged."""

    channels: list[dict[str, Any]] = field(default_factory=list)
    results: list[Segment] = field(default_factory=list)
    late: list[tuple[int, Segment]] = field(default_factory=list)
    handovers: list[dict[str, Any]] = field(default_factory=list)
    #: state that versions of queries leave to the next
    left: list[dict[str, Any]] = field(default_factory=list)
    #: "operator/input" -> rows that it has taken in
    taken: dict[str, int] = field(default_factory=dict)
    #: segments that are no longer part of any state
    dead: list[Segment] = field(default_factory=list)
    #: moves to here that rows wait for, and whose state comes when it is asked for
    asked: list[Migration] = field(default_factory=list)
    #: when (wall clock) an operator wants to be called again, if one does
    due: float | None = None

    @property
    def receivers(self) -> set[RegionId]:
        """The regions that something is for."""
        moves = (Migration.from_json(parcel["move"]) for parcel in self.handovers)
        return {RegionId(parcel["to"]) for parcel in self.channels} | {move.target for move in moves}


def _nobody_waits(move: Migration, operator: Operator) -> bool:
    return False


@dataclass
class Batch:
    """The input, the memory and the staged output of one micro-batch of one shape in one region."""

    spark: SparkSession
    folder: Place
    region: RegionId
    shape: Shape
    tables: Tables
    progress: Progress
    memory: Memory
    work: Work
    markers: Mapping[int, Epoch]
    #: whether an instance takes no rows until the state of a move has come
    waits_for: Callable[[Migration, Operator], bool] = _nobody_waits
    #: moves away from here whose state is not sent but made again, and of which rows of the sources
    replays: Mapping[Migration, dict[str, Any]] = field(default_factory=dict)
    #: how a number of rows is executed
    sizes: SizePolicy = USUAL

    def __post_init__(self) -> None:
        self.outputs = Outputs()
        #: how the rows that come in are executed; operators that read state decide by what they read
        self.execution = self.sizes.execution(self.work.rows, sum(len(s.files) for s in self._taken_in()))
        self.small = self.execution is not Execution.LARGE
        #: operator -> whether it makes few rows; the stateful ones say so themselves: it depends on what they read
        self.sized: dict[int, bool] = {}
        #: aggregate -> how the rows it is given become partials, where they are not yet
        self.deferred: dict[int, list[str]] = {}
        #: aggregates whose rows could be kept as they come
        self.deferrable: set[int] = set()
        #: (operator, input) -> rows of other regions that are state already
        self.landed: dict[tuple[int, int], list[Segment]] = {}
        #: operator -> rows that had waited and are let in now
        self.let_in: dict[int, int] = {}
        self._count = 0

    def _taken_in(self) -> Iterator[Segment]:
        for found in self.work.sources.values():
            yield from found
        for sent in self.work.channels.values():
            yield from (segment for segment, _ in sent)

    # --- staging

    def name(self, what: str) -> str:
        self._count += 1
        return f"{self._count:02d}-{what}"

    def write(self, frame: Frame, what: str, prune_by: str | None = None, small: bool | None = None) -> Segment | None:
        """Stage a DataFrame as a segment of this micro-batch. `small`: it has few rows (default: as the input has)."""
        small = self.small if small is None else small
        return segments.write(frame, self.folder / self.name(what), small=small, prune_by=prune_by)

    def write_results(self, frame: Frame, small: bool) -> Segment | None:
        return segments.write_results(frame, self.folder / self.name("results"), small=small)

    def small_input(self, index: int) -> bool:
        """Whether few rows come to an operator: from those below it, and from other regions."""
        inputs, rows = self.shape.plan.operators[index].inputs, self.let_in.get(index, 0)
        for (operator, _), parts in self.work.channels.items():
            if operator == index:
                rows += sum(segment.rows for segment, _ in parts)
        here = all(self.sized[child] for child in inputs) if inputs else self.small
        return here and self.sizes.is_small(rows)

    def learn(self, index: int, fresh: Segment | None) -> None:
        """Where a large batch's partials are nearly as many as its rows, the next ones are not grouped as they come."""
        deferring = self.memory.deferring
        if index in self.deferred:
            deferring[index] -= 1
            if not deferring[index]:
                del deferring[index]  # to be guessed again
        elif fresh is not None and not self.small and index in self.deferrable:
            deferring[index] = TRY_AGAIN if fresh.rows > self.work.rows // 2 else 0

    # --- state, and rows that wait

    def key(self, index: int, side: int = 0) -> StateKey:
        return StateKey(self.shape.signatures[index], side)

    def state(self, index: int, side: int = 0) -> State:
        return self.memory.state(self.key(index, side))

    def keep(self, room: Room, segment: Segment | None) -> None:
        """Rows wait."""
        self.memory.rooms.setdefault(room, State()).append(segment)

    def leave(self, room: Room, index: int) -> Frame | None:
        """Rows that have waited come to an operator; their log goes with the commit."""
        waited = self.memory.rooms.pop(room, State())
        self.let_in[index] = self.let_in.get(index, 0) + waited.rows
        self.outputs.dead += waited.live
        return waited.read(self.spark, sizes=self.sizes)

    # --- moves

    @property
    def epoch(self) -> Epoch:
        return self.memory.moves.epoch

    def incoming(self, index: int) -> list[Migration]:
        """Moves to here whose state has not been taken in."""
        return [move for move in self.memory.moves.incoming if move.operator == index]

    def outgoing(self, index: int) -> list[Migration]:
        return [move for move in self.memory.moves.outgoing if move.operator == index]

    def ready(self, index: int) -> list[Migration]:
        """Moves from here whose state may be sent now."""
        return [move for move in self.memory.moves.ready(self.markers) if move.operator == index]

    def waits(self, move: Migration) -> bool:
        return self.waits_for(move, self.shape.plan.operators[move.operator])

    def arrived(self, arrived: Arrived) -> None:
        self._watermarks.receive(arrived.move, arrived.clock, arrived.answered)
        for source, session in arrived.sessions.items():
            self.memory.book.reached(source, session)

    def sent(self, move: Migration) -> None:
        self.memory.moves.sent(move)

    def since(self, index: int, epoch: Epoch) -> dict[QueryId, int]:
        """Of instances that ever moved: the generation of rows that reach them under an epoch."""
        moves = self.memory.moves
        moved = {q for q, operator in moves.owners if operator == index}
        return {q: int(moves.owned_since(q, index, epoch)) for q in moved}

    # --- watermarks

    def released(self, index: int, query: QueryId) -> int:
        """How far an operator has let a query's watermark go on."""
        return self.memory.let_go.get(index, {}).get(query, NEVER)

    def all_released(self, index: int) -> dict[QueryId, int]:
        return dict(self.memory.let_go.get(index, {}))

    def advance(self, index: int) -> tuple[dict[QueryId, int], dict[QueryId, int]]:
        """(how far the operator had released each query's watermark, how far it does now)."""
        return self._watermarks.release(index, self.markers)

    @property
    def _watermarks(self) -> Watermarks:
        memory = self.memory
        return Watermarks(self.tables.deployment, self.progress, memory.book, memory.moves, memory.let_go)

    def dead_before(self, index: int, bounds: Mapping[QueryId, int]) -> int:
        return self.memory.moves.dead_before(index, bounds, self.tables.deployment)
