"""One micro-batch of one shape in one region: the whole operator DAG, in topological order, as native Spark plans.

    step(work, state, clocks, deployment) -> outputs, state', clocks'

Everything written here is staged: it counts only once the runner's commit names it. Stateful operators are in
`windows.py` and `joins.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.plan import (
    DEVICE,
    EPOCH,
    GENERATION,
    QUERY,
    WINDOW_END,
    Aggregate,
    Filter,
    Join,
    Partial,
    Project,
    Scan,
    Shape,
    Sink,
    Union,
)
from godwit.operators.deferred import defer
from godwit.operators.partial import partial
from godwit.protocol.handover import MigrationLedger, Move
from godwit.protocol.progress import Progress, released
from godwit.protocol.watermarks import NEVER, Mark, WatermarkTracker
from godwit.region.poll import Work
from godwit.region.routing_tables import TO, Tables, text
from godwit.region.state import State, landed, union
from godwit.storage.log import Segment

if TYPE_CHECKING:
    from godwit.region.transfer import StateTransfer


@dataclass
class Memory:
    """What a (region, shape) remembers between micro-batches; every commit holds it whole."""

    book: WatermarkTracker
    moves: MigrationLedger
    #: "operator:input" -> the state of that input
    states: dict[str, State] = field(default_factory=dict)
    #: operator -> query -> how far the operator has let the query's clock go
    let_go: dict[int, dict[QueryId, int]] = field(default_factory=dict)
    #: (scan, source, session) -> the newest mark that came in here; one that is over goes once it has been told
    own_marks: dict[tuple[int, str, int], Mark] = field(default_factory=dict)
    #: hand-overs that were announced and whose state is not here yet
    underway: list[dict[str, Any]] = field(default_factory=list)
    #: where state is made anew (`cuts.py`): region -> how far its commits were read; epoch -> region -> its cut
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    cuts: dict[int, dict[RegionId, dict[str, Any]]] = field(default_factory=dict)
    #: aggregate -> for how many micro-batches grouping is not worth its while; guesswork, forgotten by a restart
    deferring: dict[int, int] = field(default_factory=dict)

    def state(self, operator: int, side: int = 0) -> State:
        return self.states.setdefault(f"{operator}:{side}", State())


@dataclass
class Outputs:
    """What a micro-batch has staged."""

    channels: list[dict[str, Any]] = field(default_factory=list)
    results: list[Segment] = field(default_factory=list)
    late: list[tuple[int, Segment]] = field(default_factory=list)
    handovers: list[dict[str, Any]] = field(default_factory=list)
    #: segments that are no longer part of any state
    dead: list[Segment] = field(default_factory=list)


def _time_of(operator: Aggregate | Join, side: int) -> str:
    """The column by which an input's state is pruned."""
    if isinstance(operator, Aggregate):
        return WINDOW_END
    return operator.right_time if side else operator.left_time


class Step:
    """Runs one micro-batch. Make one, call `run`, commit what `outputs` and `memory` say."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        region: RegionId,
        shape: Shape,
        tables: Tables,
        progress: Progress,
        memory: Memory,
        work: Work,
        markers: dict[int, Epoch],
        carriage: StateTransfer | None = None,
    ) -> None:
        self.spark, self.folder, self.region, self.shape = spark, folder, region, shape
        self.tables, self.progress, self.memory, self.work = tables, progress, memory, work
        self.outputs = Outputs()
        self.small = work.rows <= segments.SMALL_ROWS
        #: operator -> whether it makes few rows; the stateful ones say so themselves: it depends on what they read
        self.sized: dict[int, bool] = {}
        #: aggregate -> how the rows it is given become partials, where they are not yet
        self.deferred: dict[int, list[str]] = {}
        self.markers = markers
        #: how state moves; None: nothing moves here
        self.carriage = carriage
        #: (operator, input) -> rows of other regions that are state already
        self.landed: dict[tuple[int, int], list[Segment]] = {}
        #: operator -> rows that had waited and are let in now
        self.released: dict[int, int] = {}
        #: moves away from here whose state is not sent but made anew, and of which rows of the sources
        self.replays: dict[Move, dict[str, Any]] = {}
        self._opened: dict[tuple[str, ...], Frame | None] = {}
        #: operator -> few rows that go from it to other regions, with the region of each
        self._outbox: dict[int, Frame] = {}
        self._count = 0

    def run(self) -> Outputs:
        self.run_through(len(self.shape.plan.operators) - 1)
        self._post()
        return self.outputs

    def run_through(self, last: int) -> Frame | None:
        """Run the operators up to one; returns what that one makes."""
        from godwit.operators.band_join import join
        from godwit.operators.window import aggregate

        local: dict[int, Frame | None] = {}
        for index, operator in enumerate(self.shape.plan.operators[: last + 1]):
            inputs = [self._input(index, side, local[child]) for side, child in enumerate(operator.inputs)]
            self.sized[index] = self.small_input(index)
            match operator:
                case Scan():
                    made = self._scan(index, operator)
                case Aggregate():
                    made = aggregate(self, index, operator, inputs[0])
                case Join():
                    made = join(self, index, operator, inputs)
                case Sink():
                    self._sink(index, operator, inputs[0])
                    return None
                case Partial():
                    made = self._partial(index, operator, inputs[0])
                case _:
                    made = self._stateless(operator, inputs)
            local[index] = made if index == last else self._route(index, made)
        return local[last]

    # --- stateless operators

    def _scan(self, index: int, scan: Scan) -> Frame | None:
        if not self.tables.queries:
            return None
        frame = self._rows(self.work.sources.get(index, []))
        return self._with_place(index, None if frame is None else self._wanted(index, scan, frame))

    def _rows(self, found: list[Segment]) -> Frame | None:
        """A stream that is joined with itself is read once."""
        files = tuple(file for segment in found for file in segment.files)
        if files not in self._opened:
            self._opened[files] = segments.read(self.spark, found)
        return self._opened[files]

    def _wanted(self, index: int, scan: Scan, frame: Frame) -> Frame:
        if self.small:
            frame = frame.coalesce(1)
        # Written as SQL, here and below: Column objects cost a round trip to Java each.
        taken_in = f"{int(self.tables.deployment.epoch)}L"
        columns = [
            f"{taken_in if name == EPOCH and name not in frame.columns else f'`{name}`'} AS `{scan.alias}__{name}`"
            for name in scan.columns
        ]
        stream = self.tables.deployment.streams[scan.stream]
        if self._needs_device(index) or self.tables.deployment.parked:
            device = text(scan.stream) if stream.device is None else f"`{stream.device}`"
            columns.append(f"CAST({device} AS string) AS {DEVICE}")
        return self.tables.with_queries(frame, columns, index, scan)

    def _with_place(self, index: int, frame: Frame | None) -> Frame | None:
        """Rows of parked queries wait here, in logs of their own, until their query has a place again."""
        parked = self.tables.deployment.parked
        inside = [frame]
        for query in self.tables.queries:
            room = f"parked:{index}:{query}"
            if query not in parked and room in self.memory.states:
                inside.append(self._let_in(index, self.memory.states.pop(room)))
            elif query in parked and inside[0] is not None:
                mine = f"{QUERY} = {text(query)}"
                kept = self.write(inside[0].where(mine), f"parked-{index}")
                self.memory.states.setdefault(room, State()).append(kept)
                inside[0] = inside[0].where(f"NOT ({mine})")
        return union(inside)

    def _let_in(self, index: int, waited: State) -> Frame | None:
        """Rows that have waited; their log goes with the commit."""
        self.released[index] = self.released.get(index, 0) + waited.rows
        self.outputs.dead += waited.live
        return waited.read(self.spark)

    def _stateless(self, operator: Filter | Project | Union, inputs: list[Frame | None]) -> Frame | None:
        frame = self._union(inputs) if isinstance(operator, Union) else inputs[0]
        if frame is None or isinstance(operator, Union):
            return frame
        if isinstance(operator, Filter):
            return self.tables.with_parameters(frame, operator.predicate).where(operator.predicate)
        frame = self.tables.with_parameters(frame, *(c.sql for c in operator.columns))
        kept = [c for c in (QUERY, DEVICE) if c in frame.columns]
        return frame.selectExpr(*kept, *(f"{c.sql} AS `{c.name}`" for c in operator.columns))

    def _partial(self, index: int, operator: Partial, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        texts = [k.sql for k in operator.keys] + [a.argument or "" for a in operator.aggregates]
        frame = self.tables.of_queries(self.tables.with_parameters(frame, *texts))
        consumer, _ = self.shape.plan.consumer(index)
        if self._may_defer(index, consumer) and (deferred := defer(drafts.made(frame), operator, self.tables.only)):
            rows, self.deferred[consumer] = deferred
            return rows
        only = self.tables.only
        return drafts.then(("partial", operator, only), lambda rows: partial(rows, operator, only), frame)

    def _may_defer(self, index: int, consumer: int) -> bool:
        """Only where grouping did not pay lately, and all rows stay here and meet no partials from elsewhere."""
        alone = (consumer, 0) not in self.work.channels
        alone = alone and not any(move.operator == consumer for move in self.memory.moves.incoming)
        stays = self.tables.routes(index).only() == self.region
        return self.memory.deferring.get(consumer, 0) > 0 and alone and stays and not self.small

    def _union(self, inputs: list[Frame | None]) -> Frame | None:
        there = [frame for frame in inputs if frame is not None]
        if not there:
            return None
        common = [c for c in there[0].columns if all(c in frame.columns for frame in there)]
        return union(frame.select(*common) for frame in there)

    def _sink(self, index: int, operator: Sink, frame: Frame | None) -> None:
        if frame is not None:
            wanted = [QUERY, *operator.columns]
            # (what the frame's columns are is asked for anyway: they are written down with the segment)
            frame = frame if frame.columns == wanted else frame.select(*wanted)
            segment = segments.write_results(frame, self.folder / self.name("results"), small=self.sized[index])
            if segment is not None:
                self.outputs.results.append(segment)

    # --- between operators

    def _input(self, index: int, side: int, local: Frame | None) -> Frame | None:
        """What an operator reads: rows from operators here, and rows that came from other regions.

        A few rows that a stateful operator gets become state as they are (`landed`), without a job of Spark's.
        """
        operator = self.shape.plan.operators[index]
        if not self._outbox.keys().isdisjoint(operator.inputs):
            self._post()
        sent = self.work.channels.get((index, side), [])
        if isinstance(operator, Aggregate | Join) and self._may_land(index, sent):
            path = self.folder / self.name(f"state-{index}-{side}")
            with_owners = [(segment, self.since(index, epoch)) for segment, epoch in sent]
            self.landed[index, side] = landed(with_owners, path, _time_of(operator, side))
            sent = []
        by_epoch: dict[Epoch, list[Segment]] = {}
        for segment, epoch in sent:
            by_epoch.setdefault(epoch, []).append(segment)
        if by_epoch and local is not None:
            # What came from elsewhere has no parameters: beside rows that have, it would seem that theirs are NULL.
            local = self.without_parameters(local)
        frames = [(self.memory.moves.epoch, local)] + [(e, segments.read(self.spark, s)) for e, s in by_epoch.items()]
        if not isinstance(operator, Aggregate | Join):
            return union(frame for _, frame in frames)
        there = union(self._with_generation(index, epoch, frame) for epoch, frame in frames)
        return self._admitted(index, side, there)

    def _may_land(self, index: int, sent: Sequence[tuple[Segment, Epoch]]) -> bool:
        """Only few rows, and nothing that must wait for its instance's state."""
        coming = any(move.operator == index for move in self.memory.moves.incoming)
        wait = coming and self.carriage is not None and not self.carriage.at_once
        return bool(sent) and segments.are_few([segment for segment, _ in sent]) and not wait

    def _admitted(self, index: int, side: int, frame: Frame | None) -> Frame | None:
        """Rows of an instance that must wait for its state wait as well: in a log of their own, until it has come."""
        here = {arrived.move for arrived in self.work.arrived}
        inside = [frame]
        for move in [m for m in self.memory.moves.incoming if m.operator == index]:
            room = f"waiting:{index}:{side}:{move.query}:{move.epoch}"
            if move in here:
                inside.append(self._let_in(index, self.memory.states.pop(room, State())))
            elif inside[0] is not None and self.carriage is not None and self.carriage.waits(move):
                mine = f"{QUERY} = {text(move.query)} AND {GENERATION} = {int(move.epoch)}"
                kept = self.write(inside[0].where(mine), f"waiting-{index}-{side}")
                self.memory.states.setdefault(room, State()).append(kept)
                inside[0] = inside[0].where(f"NOT ({mine})")
        return union(inside)

    def _with_generation(self, index: int, epoch: Epoch, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        return self.tables.per_query(frame, self.since(index, epoch), GENERATION, otherwise=0)

    def since(self, index: int, epoch: Epoch) -> dict[QueryId, int]:
        """Of instances that ever moved: the generation of rows that reach them under an epoch."""
        moved = {q for q, operator in self.memory.moves.owners if operator == index}
        return {q: int(self.memory.moves.owned_since(q, index, epoch)) for q in moved}

    def _route(self, index: int, frame: Frame | None) -> Frame | None:
        """Stage what goes to other regions; returns what stays."""
        if frame is None:
            return None
        routes = self.tables.routes(index)
        only = routes.only()
        if only == self.region or not routes.by_region:
            return frame
        if self.sized[index]:
            marked = frame.selectExpr("*", f"{text(only)} AS {TO}") if only else self.tables.marked(frame, routes)
            self._outbox[index] = self.without_parameters(marked)
            return None
        if only is not None:
            self._send(index, only, self.write(self.without_parameters(frame), f"to-{only}", small=False))
            return None
        marked = self.tables.marked(frame, routes)
        for region in sorted({*routes.by_region} - {self.region}):
            there = self.without_parameters(marked.where(f"{TO} = {text(region)}").drop(TO))
            self._send(index, region, self.write(there, f"to-{region}", small=False))
        return marked.where(f"{TO} = {text(self.region)}").drop(TO)

    def _post(self) -> None:
        """Few rows that go from operators to operators elsewhere are made by one job for all of them; what stays is
        sent to this region, in the same micro-batch."""
        waiting, self._outbox = self._outbox, {}
        for index, (schema, table) in zip(waiting, segments.collected(list(waiting.values())), strict=True):
            consumer, _ = self.shape.plan.consumer(index)
            ended = {TO} if self.shape.plan.is_local(consumer) else {TO, DEVICE}
            names = [name for name in schema.names if name not in ended]
            kept = segments.text_of(StructType([schema[name] for name in names]))
            for region in pc.unique(table[TO]).to_pylist():
                rows = table.filter(pc.equal(table[TO], region)).select(names)
                self._send(index, region, segments.write_table(rows, self.folder / self.name(f"to-{region}"), kept))

    def _send(self, index: int, region: RegionId, segment: Segment | None) -> None:
        """What an operator made goes to the next one, here or in another region."""
        consumer, side = self.shape.plan.consumer(index)
        if segment is None:
            return
        if region == self.region:
            self.work.channels.setdefault((consumer, side), []).append((segment, self.memory.moves.epoch))
            self.outputs.dead.append(segment)  # its reader is this micro-batch
            return
        parcel = {"to": region, "operator": consumer, "input": side, "segment": segment.to_json()}
        self.outputs.channels.append(parcel)

    def _needs_device(self, scan: int) -> bool:
        """Rows carry their device only where their way depends on it."""
        index = scan
        while self.shape.plan.is_local(index):
            if self.tables.routes(index).only() is None:
                return True
            index, _ = self.shape.plan.consumer(index)
        return False

    def without_parameters(self, frame: Frame) -> Frame:
        return frame.drop(*(p.name for p in self.shape.parameters)) if self.shape.parameters else frame

    # --- for the stateful operators

    def small_input(self, index: int) -> bool:
        """Whether few rows come to an operator: from those below it, and from other regions."""
        inputs = self.shape.plan.operators[index].inputs
        sent = [segment for (k, _), parts in self.work.channels.items() if k == index for segment, _ in parts]
        here = all(self.sized[child] for child in inputs) if inputs else self.small
        return here and segments.rows_of(sent) + self.released.get(index, 0) <= segments.SMALL_ROWS

    def write(self, frame: Frame, what: str, prune_by: str | None = None, small: bool | None = None) -> Segment | None:
        """Stage a DataFrame as a segment of this micro-batch. `small`: it has few rows (default: as the input has)."""
        small = self.small if small is None else small
        return segments.write(frame, self.folder / self.name(what), small=small, prune_by=prune_by)

    def name(self, what: str) -> str:
        self._count += 1
        return f"{self._count:02d}-{what}"

    def clocks(self, index: int) -> tuple[dict[QueryId, int], dict[QueryId, int]]:
        """(how far the operator had let each query's clock go, how far it does now); tells the operators above."""
        before = {q: self.memory.let_go.get(index, {}).get(q, NEVER) for q in self.tables.queries}
        now = {}
        for query, clock in self.progress.clocks(self.memory.book, index).items():
            held = self.tables.deployment.home(self.tables.queries[query], index) != self.region
            held = held or query in self.tables.deployment.parked
            held = held or self.memory.moves.held(query, index, self.markers)
            now[query] = before[query] if held else max(before[query], clock)
            self.memory.book.hear(index, released(query), Mark(1, now[query]))
        self.memory.let_go[index] = now
        return before, now
