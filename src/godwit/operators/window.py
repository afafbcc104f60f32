"""The window aggregate, tumbling and hopping: append partials, and merge only what closes.

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
from godwit.protocol.watermarks import NEVER
from godwit.region.poll import Arrived
from godwit.region.state import State, union
from godwit.storage.log import Segment
from godwit.storage.overlays import by_query, revised


def is_session(node: Aggregate) -> bool:
    return node.window.kind == "session"


@implements(Aggregate, when=lambda node: not is_session(node))
class WindowAggregate(StatefulOperator):
    """Keeps partials until their window's end has been passed."""

    def __init__(self, node: Aggregate) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        state = context.state()
        # A window that ends just when the watermark stands is closed: hence the microsecond.
        bounds = self._bounds(context.released())
        open_from = {query: bound + 1 for query, bound in bounds.items() if bound > NEVER}
        state.live += context.admit(0, inputs[0], open_from, context.few or _few_expected(context, state))
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
        query, rows = arrived.move.query, [segment for part in arrived.parts.values() for segment in part]
        if not context.divided(query) or not rows:
            context.state().live += rows
            return None
        done = self._bounds({query: arrived.clock})[query]
        here = max(done, bounds.get(query, NEVER))
        frame = State(rows).read(context.spark, sizes=context.sizes)
        assert frame is not None
        ends, few = f"unix_micros({WINDOW_END})", context.sizes.is_small(rows_of(rows))
        still_open = context.write(frame.where(f"{ends} > {here}"), "opened", 0, few)
        context.state().append(still_open)
        if here == done:
            return None
        context.makes_few(few)
        late = context.for_readers(frame.where(f"{ends} > {done} AND {ends} <= {here}"))
        node = self.node
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
        return (clock - window.size_us) // window.slide_us * window.slide_us + window.size_us

    def close(
        self, context: OperatorContext, closed: Watermarks, closing: Watermarks, moving: Watermarks
    ) -> Frame | None:
        """Results of the windows that end after `closed` and not after `closing`."""
        chosen = context.state().between(min(closed[q] for q in moving) + 1, max(moving.values()))
        due = _due(context, chosen, closed, closing)
        if due is None:
            return None
        few = context.sizes.is_small(rows_of(chosen))
        context.makes_few(few)
        due = context.for_readers(context.tables.of_queries(due))
        node, only = self.node, context.tables.only
        return drafts.then(
            ("results", node, only),
            lambda rows: results(merge(rows, node, only=only), node),
            due.coalesce(1) if few else due,
        )

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


def _due(context: OperatorContext, chosen: list[Segment], closed: Watermarks, closing: Watermarks) -> Frame | None:
    """Partials of the windows that close. Few are picked here: the bounds would make a new plan of every close."""

    def pick(table: pa.Table, segment: Segment) -> pa.Table:
        table = revised(table, segment)
        ends = segments.micros(table[WINDOW_END])
        after = pc.greater(ends, pc.fill_null(by_query(table, closed), 2**62))
        return table.filter(pc.and_(after, pc.less_equal(ends, pc.fill_null(by_query(table, closing), NEVER))))

    if (few := State(chosen).handed(context.spark, pick, context.sizes)) is not None:
        return few if few.rows else None
    frame = State(chosen).read(context.spark, sizes=context.sizes)
    if frame is None:
        return None
    frame = context.tables.per_query(frame, closed, "__closed", otherwise=2**62)
    frame = context.tables.per_query(frame, closing, "__closing", otherwise=NEVER)
    ends = f"unix_micros({WINDOW_END})"
    return frame.where(f"{ends} > __closed AND {ends} <= __closing").drop("__closed", "__closing")
