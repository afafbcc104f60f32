"""Ranks within final windows: rows wait until the watermark has passed their time, and are answered all at once."""

from __future__ import annotations

from godwit.engine import lazy_frame as drafts
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.plan import GENERATION, QUERY
from godwit.model.ranking import RankCall, Ranked
from godwit.operators.base import OperatorContext, Watermarks, implements
from godwit.operators.over import WAITING, OverRows


@implements(Ranked)
class RankedRows(OverRows):
    """As for window functions, but nothing is looked back at: rows of one time are answered together."""

    def __init__(self, node: Ranked) -> None:
        self.node = node  # type: ignore[assignment]  # (what waiting needs of a node, both have)
        self._ranked = node
        self._columns = [f"`{name}`" for name in (QUERY, *node.columns, GENERATION)]

    def _answered(self, context: OperatorContext, due: Frame) -> Frame:
        few = isinstance(due, LazyFrame)
        context.makes_few(few)
        node = self._ranked
        keys = ", ".join([QUERY, *(f"`{key}`" for key in node.keys)])
        texts = [f"{_over(call, keys)} AS `{call.name}`" for call in node.calls]
        rows = context.tables.of_queries(due.coalesce(1) if few else due)
        return drafts.then(("ranked", node), lambda frame: frame.drop(GENERATION).selectExpr("*", *texts), rows)

    def _tidy(self, context: OperatorContext, closing: Watermarks) -> None:
        context.tidy(WAITING, context.dead_before(closing) - 1)


def _over(call: RankCall, keys: str) -> str:
    order = f" ORDER BY {', '.join(call.order)}" if call.order else ""
    return f"{call.function} OVER (PARTITION BY {keys}{order})"
