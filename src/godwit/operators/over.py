"""Window functions: rows wait until the watermark has passed them, and are answered then, in one order.

Two things are kept. Rows that wait (side 0) come and go with the watermark. Of the rows that were answered (side 1)
those stay that later ones look back at: the last n of a key, those within a range of time, and with a key's last row
what functions over all its rows so far had come to. Both are only appended to; compaction leaves out the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.plan import GENERATION, QUERY
from godwit.model.running import Over
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.due import behind, due_rows
from godwit.operators.lookup import of_keys
from godwit.operators.over_sql import NEW, answers, carried_names, last_rows
from godwit.protocol.watermarks import NEVER
from godwit.region.state import union

WAITING, KEPT = 0, 1


@implements(Over)
class OverRows(StatefulOperator):
    """Answers each row when no row before it can come any more."""

    def __init__(self, node: Over) -> None:
        self.node = node
        self._columns = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION)]
        self._kept_columns = [f"`{name}`" for name in (QUERY, *node.columns, *carried_names(node), GENERATION)]

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        since = {q: clock for q, clock in behind(context.released(), self.node.lag_us).items() if clock > NEVER}
        rows = None if inputs[0] is None else inputs[0].selectExpr(*self._columns)
        context.state(WAITING).live += context.admit(WAITING, rows, since)
        for arrived in context.arrivals():
            for side, part in arrived.parts.items():
                context.state(side).live += part
        context.hand_over()
        before, now = context.advance()
        closed, closing = (behind(clock, self.node.lag_us) for clock in (before, now))
        due = due_rows(context, context.state(WAITING), self.node.time, closed, closing)
        made = None if due is None else self._answered(context, due)
        self._tidy(context, closing)
        return made

    def _answered(self, context: OperatorContext, due: Frame) -> Frame:
        """The answers of these rows, and what stays of them for later ones."""
        node, kept = self.node, context.state(KEPT)
        old = of_keys(context, kept, due, node.keys)
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
        # Within a range of time all stay: segments go when their last row is out of it.
        staying = found if node.range_us else drafts.then(("staying", node), lambda f: last_rows(f, node, None), found)
        if node.range_us or node.rows_kept:
            kept.append(context.write(staying.selectExpr(*self._kept_columns), "kept", KEPT, few))
        return found.selectExpr(QUERY, *(f"`{name}`" for name in (*node.columns, *(c.name for c in node.calls))))

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
