"""What a stateful operator sees of the micro-batch it is part of (`operators.base.OperatorContext`)."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping, Sequence

from godwit.engine import segments
from godwit.engine.file_frame import FileFrame
from godwit.engine.lazy_frame import Frame
from godwit.ids import QueryId
from godwit.model.plan import GENERATION
from godwit.operators.base import Watermarks
from godwit.protocol.watermarks import NEVER
from godwit.region.batch import Batch
from godwit.region.handover import arrivals, hand_over
from godwit.region.keyed import in_company, tagged, unanswered
from godwit.region.poll import Arrived
from godwit.region.state import State, any_before
from godwit.storage.log import Segment
from godwit.storage.overlays import edited

log = logging.getLogger(__name__)

#: a file of another file system, of another user, or with as many names as it can have
NOT_FROM_HERE = (errno.EXDEV, errno.EPERM, errno.EMLINK)


class StepContext:
    """One operator of a batch."""

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch, self._index = batch, index
        self.spark, self.tables, self.sizes = batch.spark, batch.tables, batch.sizes
        self._specs = batch.shape.plan.operators[index].state

    @property
    def few(self) -> bool:
        return self._batch.small_input(self._index)

    def makes_few(self, few: bool) -> None:
        self._batch.sized[self._index] = few

    def state(self, side: int = 0) -> State:
        return self._batch.state(self._index, side)

    def for_readers(self, rows: Frame) -> Frame:
        return self.tables.for_readers(rows, self._index)

    def admit(
        self, side: int, rows: Frame | None, since: Watermarks, few: bool | None = None, linked: bool = False
    ) -> list[Segment]:
        found = list(self._batch.landed.get((self._index, side), []))
        few = self.few if few is None else few
        fresh = self._linked(rows, side) if linked and not few and isinstance(rows, FileFrame) else None
        if fresh is None and rows is not None:
            fresh = self.write(rows, "state", side, few)
        if fresh is not None and self._index in self._batch.deferred:
            fresh = edited(fresh, "select", *self._batch.deferred[self._index], GENERATION)
        self._batch.learn(self._index, fresh)
        found += [] if fresh is None else [fresh]
        taken, where = self._batch.outputs.taken, f"{self._index}/{side}"
        taken[where] = taken.get(where, 0) + sum(segment.rows for segment in found)
        return [segment for one in found if (segment := self._in_time(one, side, since)) is not None]

    def _linked(self, rows: FileFrame, side: int) -> Segment | None:
        """Links to the files that the rows lie in, and how they are made of them. None: their times are not known, or
        the files lie where no links can be made from here."""
        time, folder, what = self._specs[side].time, self._batch.folder, f"linked-{self._index}-{side}"
        bounds = None if time is None else segments.bounds_of(rows, time)
        if bounds is None or not folder.store.links:
            return None
        try:
            parts = [segments.linked(segment, folder, self._batch.name(what)) for segment in rows.segments]
        except OSError as error:
            if error.errno not in NOT_FROM_HERE:
                raise
            log.info("%s: the rows are written once more, as state: %s", what, error)
            return None
        whole = segments.as_one(parts, *bounds)
        for texts in rows.selects:
            whole = edited(whole, "select", *texts)
        return whole

    def _in_time(self, segment: Segment, side: int, since: Watermarks) -> Segment | None:
        time = self._specs[side].time
        if time is None or not any_before(segment, time, since, self.sizes):
            return segment
        rows = State([segment]).read(self.spark, sizes=self.sizes)
        assert rows is not None
        rows = self.tables.per_query(rows, since, "__since", otherwise=NEVER)
        is_late = f"unix_micros(`{time}`) < __since"
        few = self.sizes.is_small(segment.rows)
        late = self._batch.write(rows.where(is_late).drop("__since"), f"late-{self._index}-{side}", small=few)
        if late is None:
            return segment
        self._batch.outputs.late.append((self._index, late))
        return self.write(rows.where(f"NOT ({is_late})").drop("__since"), "in-time", side, few)

    def arrivals(self) -> list[Arrived]:
        return arrivals(self._batch, self._index)

    def hand_over(self) -> None:
        hand_over(self._batch, self._index)

    def released(self) -> Watermarks:
        return self._batch.all_released(self._index)

    def advance(self) -> tuple[Watermarks, Watermarks]:
        return self._batch.advance(self._index)

    def dead_before(self, bounds: Watermarks) -> int:
        return self._batch.dead_before(self._index, bounds)

    def generations(self) -> Mapping[QueryId, int]:
        return self._batch.since(self._index, self._batch.epoch)

    def in_company(self, side: int, rows: Frame) -> Frame:
        return in_company(self._batch, self._index, side, rows)

    def unanswered(self, side: int, rows: Frame, wait_us: int) -> Frame:
        return unanswered(self._batch, self._index, side, rows, wait_us)

    def divided(self, query: QueryId) -> bool:
        deployment = self.tables.deployment
        table = deployment.routes(deployment.queries[query], self._index) if query in deployment.queries else None
        return table is not None and table.turn > 0

    def leaving(self) -> list[tuple[QueryId, int]]:
        return sorted({(move.query, int(move.epoch)) for move in self._batch.outgoing(self._index)})

    def write(self, rows: Frame, what: str, side: int = 0, few: bool | None = None) -> Segment | None:
        made = self._batch.write(rows, f"{what}-{self._index}-{side}", self._specs[side].time, small=few)
        return tagged(self._batch, self._index, side, made)

    def replace(self, side: int, segments: Sequence[Segment]) -> None:
        state = self.state(side)
        self._batch.outputs.dead += state.live
        state.live = list(segments)

    def tidy(self, side: int, bound: int, merge: Callable[[Frame], Frame] | None = None) -> None:
        state = self.state(side)
        self._batch.outputs.dead += state.drop_dead(bound)
        crowd = state.crowded()
        if not crowd:
            return
        few = self.sizes.is_small(segments.rows_of(crowd))

        def rewrite(frame: Frame) -> Segment | None:
            merged = frame if merge is None else merge(frame.coalesce(1) if few else frame)
            return self.write(merged, "compact", side, few)

        path = self._batch.folder / self._batch.name(f"gathered-{self._index}-{side}")
        if merge is not None or not state.gather(crowd, path, self._specs[side].time, self.sizes):
            state.compact(self.spark, crowd, rewrite, self.sizes)
        self._batch.outputs.dead += crowd
