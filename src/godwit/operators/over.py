"""Window functions: rows wait until the watermark has passed them, and are answered then, in one order.

Two things are kept. Rows that wait (side 0) come and go with the watermark. Of the rows that were answered (side 1)
those stay that later ones look back at: the last n of a key, those within a range of time, and with a key's last row
what functions over all its rows so far had come to. Both are only appended to; compaction leaves out the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.held import within
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.plan import GENERATION, QUERY
from godwit.model.running import Over, OverAhead
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.due import behind, due_rows
from godwit.operators.key_index import INDEXES
from godwit.operators.lookup import of_keys
from godwit.operators.over_sql import DUE, NEW, answers, carried_names, last_rows
from godwit.protocol.watermarks import FOREVER, NEVER
from godwit.region.poll import Arrived
from godwit.region.state import State, union

WAITING, KEPT = 0, 1


@implements(Over)
@implements(OverAhead)
class OverRows(StatefulOperator):
    """Answers each row when no row before it can come any more."""

    def __init__(self, node: Over) -> None:
        self.node = node
        self._columns = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION)]
        self._kept_columns = [f"`{name}`" for name in (QUERY, *node.columns, *carried_names(node), GENERATION)]

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        bounds = behind(context.released(), self.node.lag_us)
        since = {q: clock for q, clock in bounds.items() if clock > NEVER}
        rows = None if inputs[0] is None else inputs[0].selectExpr(*self._columns)
        context.state(WAITING).live += context.admit(WAITING, rows, since)
        passed = [self._taken_in(context, arrived, bounds) for arrived in context.arrivals()]
        if context.leaving():
            self._forget_answered(context, bounds)
        context.hand_over()
        before, now = context.advance()
        closed, closing = (behind(clock, self.node.lag_us) for clock in (before, now))
        due = due_rows(context, context.state(WAITING), self.node.time, closed, closing)
        made = None if due is None else self._answered(context, due)
        self._tidy(context, closing)
        return union([*passed, made])

    def _taken_in(self, context: OperatorContext, arrived: Arrived, bounds: Watermarks) -> Frame | None:
        """State that came. Where keys have several owners, rows that the watermark here has passed, because of other
        keys, are taken for passed at once: what that answers is returned. The sender has passed those before its own
        watermark; if they were sent to both, what is kept of them is made here, and what it answers has been told.
        (Which rows that is, is not to be seen in their time: those that look ahead wait for others behind them.)"""
        query, rows = arrived.move.query, State(arrived.everything.get(WAITING, []))
        context.state(KEPT).live += arrived.parts.get(KEPT, [])
        if not context.divided(query) or not rows.live:
            context.state(WAITING).live += rows.live
            return None
        done = behind({query: arrived.clock}, self.node.lag_us)[query]
        here = max(done, bounds.get(query, NEVER))
        frame = rows.read(context.spark, sizes=context.sizes)
        assert frame is not None
        frame = frame.selectExpr(*self._columns)
        later = context.write(self._within(frame, here, FOREVER), "later", WAITING, context.sizes.is_small(rows.rows))
        context.state(WAITING).append(later)
        if arrived.move.dual:
            self._passed(context, self._within(frame, NEVER, done))
        return self._passed(context, self._within(frame, done, here))

    def _passed(self, context: OperatorContext, rows: Frame) -> Frame | None:
        return None if isinstance(rows, LazyFrame) and not rows.rows else self._answered(context, rows)

    def _within(self, frame: Frame, low: int, high: int) -> Frame:
        """Rows of [low, high); of few, without a plan of their own."""
        time = self.node.time
        if isinstance(frame, LazyFrame):

            def inside(rows: pa.Table) -> pa.Array:
                at = segments.micros(rows[time])
                return pc.and_(pc.greater_equal(at, low), pc.less(at, high))

            return frame.kept(inside)
        return within(drafts.made(frame), f"unix_micros(`{time}`)", low, high)

    def _forget_answered(self, context: OperatorContext, bounds: Watermarks) -> None:
        """Rows that have been answered lie among those that wait until their segment goes: they are not handed over."""
        state = context.state(WAITING)
        frame = state.read(context.spark, sizes=context.sizes)
        answered = max(bounds.values(), default=NEVER)
        if frame is None or all(one.low is not None and one.low >= answered for one in state.live):
            return
        few = context.sizes.is_small(state.rows)
        marked = context.tables.per_query(frame, bounds, "__answered", otherwise=NEVER)
        left = marked.where(f"unix_micros(`{self.node.time}`) >= __answered").drop("__answered")
        still = context.write(left, "waiting", WAITING, few)
        context.replace(WAITING, [] if still is None else [still])

    def _answered(self, context: OperatorContext, due: Frame) -> Frame:
        """The answers of these rows, or of those that have waited for them, and what stays of them for later ones."""
        node, kept = self.node, context.state(KEPT)
        old = of_keys(context, kept, due, node.keys, INDEXES)
        few = isinstance(due, LazyFrame) and (old is None or isinstance(old, LazyFrame))
        context.makes_few(few)
        seen = None if old is None else old.selectExpr("*", f"false AS {NEW}")
        rows = union([due.selectExpr("*", f"true AS {NEW}"), seen])
        assert rows is not None
        rows = context.tables.of_queries(rows.coalesce(1) if few else rows)
        found = drafts.then(("over", node), lambda frame: answers(frame, node), rows)
        if few:  # once, for both that read it
            schema = segments.struct(segments.schema_of(found))
            found = LazyFrame.of(context.spark, found.toArrow().combine_chunks(), schema).coalesce(1)
        made = found.where(DUE) if node.ahead else found
        found = found.where(NEW) if node.ahead else found
        # Within a range of time all stay: segments go when their last row is out of it.
        staying = found if node.range_us else drafts.then(("staying", node), lambda f: last_rows(f, node, None), found)
        if node.range_us or node.rows_kept:
            kept.append(context.write(staying.selectExpr(*self._kept_columns), "kept", KEPT, few))
        return made.selectExpr(QUERY, *(f"`{name}`" for name in (*node.columns, *(c.name for c in node.calls))))

    def _tidy(self, context: OperatorContext, closing: Watermarks) -> None:
        node, answered = self.node, context.dead_before(closing)
        context.tidy(WAITING, answered - 1)
        if not node.rows_kept:
            context.tidy(KEPT, answered - node.range_us - 1)
            return
        # (Rounded, so that not every compaction makes a new plan.)
        since = _rounded(answered, node.range_us) if node.range_us else None
        alive = _rounded(answered, max(node.keep_us, node.range_us)) if node.keep_us else None

        def looked_at(frame: Frame) -> Frame:
            what = ("looked at", node, since, alive)
            return drafts.then(what, lambda rows: last_rows(rows, node, since, alive), frame)

        dead = NEVER if alive is None else answered - max(node.keep_us, node.range_us) - 1
        context.tidy(KEPT, dead, looked_at)


def _rounded(watermark: int, length: int) -> int:
    """A time that is at least that long before the watermark."""
    return (watermark - length) // length * length
