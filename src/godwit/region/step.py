"""One micro-batch of one shape in one region: the whole operator DAG, in topological order, as native Spark plans.

    step(work, state, clocks, deployment) -> outputs, state', clocks'

Everything written here is staged: it counts only once the runner's commit names it. Stateful operators are found by
their plan node (`operators/base.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from godwit.engine import arrival, in_order, segments
from godwit.engine import lazy_frame as drafts
from godwit.engine.file_frame import FileFrame
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.plan import (
    CLASS,
    DEVICE,
    QUERY,
    Filter,
    OldRows,
    Operator,
    Partial,
    Project,
    Scan,
    Sink,
    Union,
)
from godwit.model.taps import LEAVING
from godwit.operators.base import implementation
from godwit.operators.deferred import can_defer, defer
from godwit.operators.partial import partial
from godwit.operators.reduction import hardly_reduces
from godwit.protocol.session_order import ROUTED, keeps_order
from godwit.region import keyed, sink_order
from godwit.region.batch import TRY_AGAIN, Batch, Outputs
from godwit.region.context import StepContext
from godwit.region.key_sql import BESIDE, KEY, TO, goes_to
from godwit.region.sql_text import text
from godwit.region.state import Room, landed, union
from godwit.region.turns import HELD, TOO_OLD_FOR
from godwit.storage.by_query import ROWS
from godwit.storage.log import Segment
from godwit.storage.overlays import EDITS


class Step:
    """Runs one micro-batch. Make one, call `run`, commit what the batch's `outputs` and `memory` say."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._tables, self._work, self._plan = batch, batch.tables, batch.work, batch.shape.plan
        old = [i for i, operator in enumerate(self._plan.operators) if isinstance(operator, OldRows)]
        #: scans whose rows are told from those that were there before
        self._dated = {scan for index in old for scan in self._plan.scans_below(index)}
        self._opened: dict[tuple[object, ...], Frame | None] = {}
        #: operator -> few rows that go from it to other regions, with the region of each
        self._outbox: dict[int, Frame] = {}
        #: whether rows say if they came from another region, and by which epoch
        self._routed = sink_order.tells_epochs_apart(batch)
        self._ordered = keeps_order(self._plan)

    def run(self) -> Outputs:
        keyed.drop_cancelled(self._batch)
        self.run_through(len(self._plan.operators) - 1)
        self._post()
        return self._batch.outputs

    def run_through(self, last: int) -> Frame | None:
        """Run the operators up to one; returns what that one makes."""
        local: dict[int, Frame | None] = {}
        for index, operator in enumerate(self._plan.operators[: last + 1]):
            inputs = [self._input(index, side, local[child]) for side, child in enumerate(operator.inputs)]
            self._batch.sized[index] = self._batch.small_input(index)
            made = self._made(index, operator, inputs)
            if made is not None and operator.told_apart == "rows":
                made = self._tables.for_readers(made, index)
            if index in self._tables.readers.cuts:
                made = self._leave(index, made)
            local[index] = made if index == last else self._route(index, made)
        return local[last]

    def _made(self, index: int, operator: Operator, inputs: list[Frame | None]) -> Frame | None:
        if operator.stateful:
            return self._stateful(index, operator, inputs)
        match operator:
            case Scan():
                return self._scan(index, operator)
            case Sink():
                self._sink(index, operator, inputs[0])
                return None
            case Partial():
                return self._partial(index, operator, inputs[0])
            case Union():
                return self._union(inputs)
            case Filter():
                return self._filter(operator, inputs[0])
            case Project():
                return self._project(operator, inputs[0])
            case OldRows():
                return _old_rows(inputs[0])
        msg = f"no micro-batch knows a stateless operator {type(operator).__name__}"
        raise AssertionError(msg)

    def _stateful(self, index: int, operator: Operator, inputs: list[Frame | None]) -> Frame | None:
        known, context = implementation(operator), StepContext(self._batch, index)
        made = known.step(context, inputs)
        due = [at for at in (known.next_due(context), self._batch.outputs.due) if at is not None]
        self._batch.outputs.due = min(due, default=None)
        return made

    # --- stateless operators

    def _scan(self, index: int, scan: Scan) -> Frame | None:
        if not self._tables.readers.scanning[index]:
            return self._with_place(index, None) if self._tables.queries else None
        frame = self._rows([s for s in self._work.sources.get(index, []) if TOO_OLD_FOR not in s.tags], scan)
        there = None if frame is None else self._wanted(index, scan, frame)
        return self._with_place(index, union([*self._of_older_queries(index, scan), there]))

    def _of_older_queries(self, index: int, scan: Scan) -> Iterator[Frame]:
        """Rows that have waited for their turn, and were read before some of the queries began."""
        for segment in (s for s in self._work.sources.get(index, []) if TOO_OLD_FOR in s.tags):
            frame = self._rows([segment], scan)
            assert frame is not None
            names = ", ".join(map(text, segment.tags[TOO_OLD_FOR]))
            rows = self._wanted(index, scan, frame).where(f"{QUERY} NOT IN ({names})")
            if CLASS in rows.columns:
                rows = rows.drop(CLASS).selectExpr("*", f"{segment.tags[HELD]}L AS {CLASS}")
            yield rows

    def _rows(self, found: list[Segment], scan: Scan) -> Frame | None:
        """A stream that is joined with itself is read once."""
        rows = (scan.late, *(segment.key for segment in found))
        if rows not in self._opened:
            spark, sizes = self._batch.spark, self._batch.sizes
            stream = self._tables.deployment.streams[scan.stream]
            if not self._batch.small and _as_they_lie(scan, found):
                read: Frame | None = FileFrame(lambda selects: self._scanned(found, selects), tuple(found))
            elif scan.arrival:
                read = arrival.read(spark, found, stream, sizes)
            elif self._ordered and not segments.are_few(found, sizes):
                read = in_order.read(spark, found, sizes)
            else:
                # (those that answer at once do not wait for the plans of others)
                read = segments.read_shared(spark, found, sizes, self._plan.stateful)
            self._opened[rows] = read
        return self._opened[rows]

    def _scanned(self, found: list[Segment], selects: Sequence[Sequence[str]]) -> DataFrame:
        read = in_order.read if self._ordered else segments.read
        rows = read(self._batch.spark, found, self._batch.sizes, selects)
        assert rows is not None
        return drafts.made(rows)

    def _read(self, found: list[Segment]) -> Frame | None:
        """Rows that other regions have sent."""
        read = in_order.read if self._ordered else segments.read
        return read(self._batch.spark, found, self._batch.sizes)

    def _wanted(self, index: int, scan: Scan, frame: Frame) -> Frame:
        if self._batch.small and not isinstance(frame, LazyFrame):
            frame = frame.coalesce(1)
        # Written as SQL, here and below: Column objects cost a round trip to Java each.
        stream = self._tables.deployment.streams[scan.stream]
        lacking = set(stream.added).intersection(scan.columns).difference(frame.columns)
        if lacking:  # rows from before it had them
            more = (f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in stream.columns if c.name in lacking)
            frame = frame.selectExpr("*", *more)
        columns = [f"`{name}` AS `{scan.alias}__{name}`" for name in scan.columns]
        if self._needs_device(index) or self._tables.deployment.parked:
            device = text(scan.stream) if stream.device is None else f"`{stream.device}`"
            columns.append(f"CAST({device} AS string) AS {DEVICE}")
        rows = self._tables.with_queries(frame, columns, index, scan)
        if index in self._dated:
            return rows.selectExpr("*", f"{int(self._tables.deployment.epoch)}L AS {CLASS}")
        return self._tables.readers.with_class(rows)

    def _with_place(self, index: int, frame: Frame | None, queries: Sequence[QueryId] | None = None) -> Frame | None:
        """Rows of parked queries wait here, in logs of their own, until their query has a place again."""
        if not (self._batch.memory.rooms or self._tables.deployment.parked):
            return frame
        waited, inside = list[Frame | None](), [frame]
        for query in self._tables.queries if queries is None else queries:
            room = Room("parked", query, self._batch.key(index))
            suspended = self._tables.deployment.suspended(query)
            if not suspended and room in self._batch.memory.rooms:
                waited.append(self._batch.leave(room, index))
            elif suspended and inside[0] is not None:
                mine = f"{QUERY} = {text(query)}"
                self._batch.keep(room, self._batch.write(inside[0].where(mine), f"parked-{index}"))
                inside[0] = inside[0].where(f"NOT ({mine})")
        return union([*waited, *inside])

    def _filter(self, operator: Filter, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        return self._tables.with_parameters(frame, operator.predicate).where(operator.predicate)

    def _project(self, operator: Project, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        frame = self._tables.with_parameters(frame, *(c.sql for c in operator.columns))
        kept = [c for c in (QUERY, DEVICE, CLASS, ROUTED) if c in frame.columns]
        return frame.selectExpr(*kept, *(f"{c.sql} AS `{c.name}`" for c in operator.columns))

    def _partial(self, index: int, operator: Partial, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        texts = [k.sql for k in operator.keys] + [a.argument or "" for a in operator.aggregates]
        frame = self._tables.with_parameters(frame, *texts)
        if not isinstance(frame, FileFrame):  # (all of those rows are of one query, and its name is a constant)
            frame = self._tables.of_queries(frame)
        consumer, _ = self._plan.consumer(index)
        if can_defer(operator):
            self._batch.deferrable.add(consumer)
        if self._may_defer(index, consumer, operator, frame):
            kept = frame if isinstance(frame, FileFrame) else drafts.made(frame)
            if (deferred := defer(kept, operator, self._tables.only)) is not None:
                rows, self._batch.deferred[consumer] = deferred
                return rows
        only = self._tables.only
        return drafts.then(("partial", operator, only), lambda rows: partial(rows, operator, only), frame)

    def _may_defer(self, index: int, consumer: int, operator: Partial, frame: Frame) -> bool:
        """Only where grouping did not pay lately, or will hardly pay, and all rows stay here and meet no partials from
        elsewhere."""
        batch = self._batch
        alone = (consumer, 0) not in self._work.channels and not batch.incoming(consumer)
        stays = self._tables.routes(index).only() == batch.region
        apart = bool(self._tables.readers.classes)
        if not (can_defer(operator) and alone and stays) or batch.small or apart:
            return False
        deferring = batch.memory.deferring
        if consumer not in deferring and isinstance(frame, FileFrame) and hardly_reduces(frame, operator):
            deferring[consumer] = TRY_AGAIN
        return deferring.get(consumer, 0) > 0

    def _union(self, inputs: list[Frame | None]) -> Frame | None:
        there = [frame for frame in inputs if frame is not None]
        if not there:
            return None
        common = [c for c in there[0].columns if all(c in frame.columns for frame in there)]
        return union(frame.select(*common) for frame in there)

    def _sink(self, index: int, operator: Sink, frame: Frame | None) -> None:
        """Results leave."""
        if frame is not None:
            frame = self._tables.readers.of_users(frame)
            wanted = [QUERY, *operator.written]
            # (what the frame's columns are is asked for anyway: they are written down with the segment)
            frame = frame if frame.columns == wanted else frame.select(*wanted)
            segment = self._batch.write_results(frame, self._batch.sized[index])
            if segment is not None:
                self._batch.outputs.results.append(segment)

    def _leave(self, index: int, frame: Frame | None) -> Frame | None:
        """Rows of queries that are cut here are results, and go where those leave; returns the others."""
        cut = self._tables.readers.cuts[index]
        frame = self._with_place(index, frame, cut)
        arrived = [segment for segment, _ in self._work.channels.get((index, LEAVING), [])]
        leaving = [segments.read(self._batch.spark, arrived, self._batch.sizes)]
        by_region: dict[RegionId, list[QueryId]] = {}
        for query in cut:
            owners = self._tables.deployment.owners(self._tables.queries[query], len(self._plan.operators) - 1)
            by_region.setdefault(min(owners, default=self._batch.region), []).append(query)
        for region, queries in by_region.items() if frame is not None else ():
            assert frame is not None
            mine = f"{QUERY} IN ({', '.join(map(text, queries))})"
            columns = [f"`{name}`" for name in (QUERY, *self._tables.queries[queries[0]].output)]
            rows, frame = frame.where(mine).selectExpr(*columns), frame.where(f"NOT ({mine})")
            if region == self._batch.region:
                leaving.append(rows)
            elif (segment := self._batch.write(rows, f"to-{region}", small=self._batch.sized[index])) is not None:
                parcel = {"to": region, "operator": index, "input": LEAVING, "segment": segment.to_json()}
                self._batch.outputs.channels.append(parcel)
        results = union(leaving)
        if results is not None:
            segment = self._batch.write_results(results, self._batch.sized[index])
            if segment is not None:
                held = segment.tags.get(ROWS) or dict.fromkeys(cut, segment.rows)
                self._batch.outputs.results.append(replace(segment, tags={**segment.tags, ROWS: held}))
        return frame

    # --- between operators

    def _input(self, index: int, side: int, local: Frame | None) -> Frame | None:
        """What an operator reads: rows from operators here, and rows that came from other regions.

        A few rows that a stateful operator gets become state as they are (`landed`), without a job of Spark's.
        """
        batch, operator = self._batch, self._plan.operators[index]
        if not self._outbox.keys().isdisjoint(operator.inputs):
            self._post()
        sent = self._work.channels.get((index, side), [])
        if self._routed:
            local = sink_order.marked(local, None)
        if isinstance(operator, Sink) and (self._routed or batch.incoming(index) or self._work.let_out):
            local = None if local is None else self._tables.without_parameters(local)
            came = ((epoch, self._read([segment])) for segment, epoch in sent)
            return sink_order.leaving(batch, index, [(batch.epoch, local), *came])
        if not sent and not operator.stateful:
            return local
        if operator.stateful and self._may_land(index, sent):
            path = batch.folder / batch.name(f"state-{index}-{side}")
            with_owners = [(segment, batch.since(index, epoch)) for segment, epoch in sent]
            batch.landed[index, side] = landed(with_owners, path, operator.state[side].time)
            sent = []
        by_epoch: dict[Epoch, list[Segment]] = {}
        for segment, epoch in sent:
            by_epoch.setdefault(epoch, []).append(segment)
        if by_epoch and local is not None:
            # What came from elsewhere has no parameters: beside rows that have, it would seem that theirs are NULL.
            local = self._tables.without_parameters(local)
        frames = [(batch.epoch, local)] + [(e, self._read(s)) for e, s in by_epoch.items()]
        if not operator.stateful:
            if self._routed:
                # (what an operator here has sent to one here was read here)
                frames = [(e, sink_order.marked(f, e if e < batch.epoch else None)) for e, f in frames]
            return union(frame for _, frame in frames)
        there = union(self._with_generation(index, side, epoch, frame) for epoch, frame in frames)
        return keyed.admitted(batch, index, side, there)

    def _may_land(self, index: int, sent: Sequence[tuple[Segment, Epoch]]) -> bool:
        """Only few rows, and nothing that must wait for its instance's state, or is told apart by its key."""
        wait = any(map(self._batch.waits, self._batch.incoming(index))) if sent else False
        wait = wait or keyed.tells_keys_apart(self._batch, index)
        return bool(sent) and segments.are_few([segment for segment, _ in sent], self._batch.sizes) and not wait

    def _with_generation(self, index: int, side: int, epoch: Epoch, frame: Frame | None) -> Frame | None:
        if frame is None:
            return None
        frame = keyed.without_copies(self._batch, index, side, epoch, frame)
        return keyed.with_generation(self._batch, index, side, epoch, frame)

    def _route(self, index: int, frame: Frame | None) -> Frame | None:
        """Stage what goes to other regions; returns what stays."""
        if frame is not None and ROUTED in frame.columns:
            came, read_here = sink_order.apart(frame)
            return union([came, self._route(index, read_here)])
        if frame is None:
            return None
        routes = self._tables.routes(index)
        only = routes.only()
        if only == self._batch.region or not routes.regions:
            return frame
        if self._batch.sized[index]:
            self._outbox[index] = self._tables.without_parameters(self._tables.with_key(frame, routes))
            return None
        if only is not None:
            self._send(
                index, only, self._batch.write(self._tables.without_parameters(frame), f"to-{only}", small=False)
            )
            return None
        marked = self._tables.marked(frame, routes)
        for region in sorted(routes.regions - {self._batch.region}):
            there = self._tables.without_parameters(marked.where(goes_to(region)).drop(TO))
            self._send(index, region, self._batch.write(there, f"to-{region}", small=False))
        return marked.where(goes_to(self._batch.region)).drop(TO)

    def _post(self) -> None:
        """Few rows that go from operators to operators elsewhere are told apart here, not by a job each; what stays
        is sent to this region, in the same micro-batch."""
        waiting, self._outbox = self._outbox, {}
        for index, frame in waiting.items():
            schema, table = frame.schema, frame.toArrow()
            consumer, _ = self._plan.consumer(index)
            ended = {KEY} if self._plan.is_local(consumer) else {DEVICE, KEY}
            names = [name for name in schema.names if name not in ended]
            kept = segments.text_of(drafts.chosen(schema, names))
            routes = self._tables.routes(index)
            to = routes.only() or self._tables.regions_of(table, routes)
            ways = [to] if isinstance(to, str) else pc.unique(to).to_pylist()
            for regions in ways:
                rows = (table if len(ways) == 1 else table.filter(pc.equal(to, regions))).select(names)
                for region in map(RegionId, regions.split(BESIDE)):
                    path = self._batch.folder / self._batch.name(f"to-{region}")
                    self._send(index, region, segments.write_table(rows, path, kept))

    def _send(self, index: int, region: RegionId, segment: Segment | None) -> None:
        """What an operator made goes to the next one, here or in another region."""
        consumer, side = self._plan.consumer(index)
        if segment is None:
            return
        if region == self._batch.region:
            self._work.channels.setdefault((consumer, side), []).append((segment, self._batch.epoch))
            self._batch.outputs.dead.append(segment)  # its reader is this micro-batch
            return
        parcel = {"to": region, "operator": consumer, "input": side, "segment": segment.to_json()}
        self._batch.outputs.channels.append(parcel)

    def _needs_device(self, scan: int) -> bool:
        """Rows carry their device only where their way depends on it."""
        index = scan
        while self._plan.is_local(index):
            if self._tables.routes(index).only() is None:
                return True
            index, _ = self._plan.consumer(index)
        return False


def _as_they_lie(scan: Scan, found: Sequence[Segment]) -> bool:
    """Whether the rows of these segments are all there is in files of one schema."""
    plain = all(segment.files and not segment.tags.get(EDITS) for segment in found)
    alone = len({(segment.schema, id(segment.store)) for segment in found}) == 1
    return plain and alone and not scan.arrival and not scan.late


def _old_rows(frame: Frame | None) -> Frame | None:
    """(rows that were inherited, and all that is made of them, are of no class)"""
    if frame is None or CLASS not in frame.columns:
        return frame
    return frame.where(f"coalesce({CLASS}, 0L) = 0L").drop(CLASS)
