"""The window aggregate, tumbling, hopping and by the calendar: append partials, and merge only what closes.

A batch in which no window closes costs one append. Closing reads the segments that reach into the closing windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.engine.segments import rows_of
from godwit.model.plan import CLASS, GENERATION, WINDOW_END, Aggregate
from godwit.operators.aggregate import merge, results
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.key_parts import in_parts, worth_parts
from godwit.protocol.watermarks import NEVER
from godwit.region.poll import Arrived
from godwit.region.state import State, union
from godwit.storage.log import Segment
from godwit.storage.overlays import by_query, revised

#: columns: the bounds between which windows close
CLOSED, CLOSING = "__closed", "__closing"


def is_session(node: Aggregate) -> bool:
    return node.window.kind == "session"


@implements(Aggregate, when=lambda node: node.window.kind not in ("session", "sliced"))
class WindowAggregate(StatefulOperator):
    """Keeps partials until their window's end has been passed."""

    #: how much later than a closing window's end the end of a partial may be that is part of it
    beyond_us = 0

    def __init__(self, node: Aggregate) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        state = context.state()
        # A window that ends just when the watermark stands is closed: hence the microsecond.
        bounds = self._bounds(context.released())
        open_from = {query: bound + 1 for query, bound in bounds.items() if bound > NEVER}
        few = context.few or _few_expected(context, state)
        state.live += context.admit(0, inputs[0], open_from, few, linked=True)
        arrivals = context.arrivals()
        passed = [self._opened(context, arrived, bounds) for arrived in arrivals]
        context.hand_over()
        before, now = context.advance()
        closed, closing = self._bounds(before), self._bounds(now)
        moving = {query: bound for query, bound in closing.items() if bound > closed[query]}
        moving |= self.passed_by(arrivals, closing)
        made = self.close(context, closed, closing, moving) if moving else None
        self.tidy(context, closing)
        return union([made, *passed])

    def _opened(self, context: OperatorContext, arrived: Arrived, bounds: Watermarks) -> Frame | None:
        """Partials that arrived become state. Where keys have several owners, what the sender has closed is left out,
        and windows that the watermark here has passed, because of other keys, close at once: they are returned."""
        query, rows = arrived.move.query, [segment for part in arrived.everything.values() for segment in part]
        if not context.divided(query) or not rows:
            context.state().live += rows
            return None
        done = self._bounds({query: arrived.clock})[query]
        here = max(done, bounds.get(query, NEVER))
        frame = State(rows).read(context.spark, sizes=context.sizes)
        assert frame is not None
        few = context.sizes.is_small(rows_of(rows))
        still_open = context.write(self.open_rows(frame, here), "opened", 0, few)
        context.state().append(still_open)
        if here == done:
            return None
        context.makes_few(few)
        bounded = frame.selectExpr("*", f"{done}L AS {CLOSED}", f"{here}L AS {CLOSING}")
        late, node = context.for_readers(self.closing_rows(bounded)), self.node
        return drafts.then(("passed", node), lambda due: results(merge(due, node), node), late)

    def passed_by(self, arrivals: Sequence[Arrived], closing: Watermarks) -> Watermarks:
        """Queries whose windows must be looked at, though their watermark stands still: none, they have closed."""
        return {}

    def _bounds(self, watermarks: Watermarks) -> Watermarks:
        return {q: clock if clock == NEVER else self.bound(clock - self.node.lag_us) for q, clock in watermarks.items()}

    def bound(self, clock: int) -> int:
        """Windows that end up to here are complete.

        They end only every slide: the bound is the last such end, so that queries whose watermarks differ a little have
        the same, and nothing is looked for between two ends.
        """
        window = self.node.window
        if window.kind == "calendar":
            return clock
        first = window.size_us + window.offset_us
        return (clock - first) // window.slide_us * window.slide_us + first

    def close(
        self, context: OperatorContext, closed: Watermarks, closing: Watermarks, moving: Watermarks
    ) -> Frame | None:
        """Results of the windows that end after `closed` and not after `closing`."""
        chosen = context.state().between(min(closed[q] for q in moving) + 1, max(moving.values()) + self.beyond_us)
        due = self._due(context, chosen, closed, closing)
        if due is None:
            return None
        few = context.sizes.is_small(rows_of(chosen))
        context.makes_few(few)
        due = context.for_readers(context.tables.of_queries(due))
        node, only = self.node, context.tables.only
        if not few and worth_parts(chosen):
            return results(merge(in_parts(drafts.made(due), node.keys), node, only=only), node)
        return drafts.then(
            ("results", node, only),
            lambda rows: results(merge(rows, node, only=only), node),
            due.coalesce(1) if few else due,
        )

    def _due(
        self, context: OperatorContext, chosen: list[Segment], closed: Watermarks, closing: Watermarks
    ) -> Frame | None:
        """Partials of the windows that close. Few are picked here: the bounds would make a new plan of every close."""

        def pick(table: pa.Table, segment: Segment) -> pa.Table:
            table = revised(table, segment)
            after, until = pc.fill_null(by_query(table, closed), 2**62), pc.fill_null(by_query(table, closing), NEVER)
            return self.pick_closing(table, after, until)

        if (few := State(chosen).handed(context.spark, pick, context.sizes)) is not None:
            return few if few.rows else None
        frame = State(chosen).read(context.spark, sizes=context.sizes)
        if frame is None:
            return None
        frame = context.tables.per_query(frame, closed, CLOSED, otherwise=2**62)
        return self.closing_rows(context.tables.per_query(frame, closing, CLOSING, otherwise=NEVER))

    def open_rows(self, frame: Frame, closed: int) -> Frame:
        """Partials of windows that end after `closed`."""
        return frame.where(f"unix_micros({WINDOW_END}) > {closed}")

    def pick_closing(self, table: pa.Table, closed: pa.Array, closing: pa.Array) -> pa.Table:
        """Of a few partials those of windows that end after `closed` and not after `closing`."""
        ends = segments.micros(table[WINDOW_END])
        return table.filter(pc.and_(pc.greater(ends, closed), pc.less_equal(ends, closing)))

    def closing_rows(self, frame: Frame) -> Frame:
        """The same of many, which have the two bounds as columns."""
        ends = f"unix_micros({WINDOW_END})"
        return frame.where(f"{ends} > {CLOSED} AND {ends} <= {CLOSING}").drop(CLOSED, CLOSING)

    def tidy(self, context: OperatorContext, closing: Watermarks) -> None:
        """Partials of one generation, and of one class where there are several, become one."""

        def merged(frame: Frame) -> Frame:
            by = tuple(name for name in (GENERATION, CLASS) if name in frame.columns)
            return drafts.then(("merge", self.node, by), lambda rows: merge(rows, self.node, by=by), frame)

        context.tidy(0, context.dead_before(closing), merged)


def _few_expected(context: OperatorContext, state: State) -> bool:
    """However many rows come in, their partials are few where they were few before: a matter of the keys."""
    newest = state.live[-2:]
    return bool(newest) and context.sizes.is_small(4 * max(segment.rows for segment in newest))
