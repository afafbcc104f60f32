"""Joins in which rows without a partner count: outer, semi and anti joins within a band.

State is that of the band join, the recent rows of both sides, and nothing else. Pairs are made as they are there. That
a row has no partner is known when the watermark has passed the end of its band: then it is looked for among the rows of
the other side, which are kept that long. A semi join's row comes out with its first partner: with one that it meets
now, if it has none among those it has met before. Who has met whom is known by generations, so this holds over moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.model.joins import OuterJoin
from godwit.model.plan import QUERY
from godwit.operators.band_join import BandJoin, Meeting
from godwit.operators.base import OperatorContext, StatefulOperator, Watermarks, implements
from godwit.operators.due import behind, clocks_of, due_rows, moving, unanswered
from godwit.operators.join import chosen
from godwit.region.poll import Arrived
from godwit.region.state import State, union


@implements(OuterJoin)
class OuterBandJoin(StatefulOperator):
    """Keeps the rows of both sides until they are answered, and while they may be somebody's partner."""

    def __init__(self, node: OuterJoin) -> None:
        self.node, self._band = node, BandJoin(node.inner)

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        meetings, arrivals = self._band.take_in(context, inputs)
        made: list[Frame | None] = []
        if self.node.how == "semi":
            made += [self._first_partners(context, one) for one in meetings]
        elif self.node.how != "anti" and (pairs := self._band.pairs(context, meetings)) is not None:
            made.append(context.for_readers(pairs))
        if arrivals:
            made += [self._passed(context, side, arrivals) for side in self.node.answers_for]
        context.hand_over()
        before, now = context.advance()
        made += [self._alone(context, side, context.state(side), before, now) for side in self.node.answers_for]
        clock = context.dead_before(now)
        for side, lasts in enumerate(self.node.lasts_us):
            context.tidy(side, clock - lasts - 1)
        told = union(made)
        if told is not None:
            context.makes_few(isinstance(told, LazyFrame))
        return told

    def _first_partners(self, context: OperatorContext, one: Meeting) -> Frame:
        """The rows of the left that find a partner now and had none before."""
        left, right, met = (part.read(context.spark, sizes=context.sizes) for part in (one.left, one.right, one.met))
        assert left is not None
        assert right is not None
        left, right = self._of_readers(context, context.in_company(0, left)), context.in_company(1, right)
        met = None if met is None else context.in_company(1, met)
        found = self._chosen(context, left, right, 0, having=True)
        found = found if met is None else self._chosen(context, found, met, 0, having=False)
        return self._own(context, found, 0)

    def _passed(self, context: OperatorContext, side: int, arrivals: Sequence[Arrived]) -> Frame | None:
        """The same of rows that came, or have waited, when the watermark here had passed them because of other keys."""
        came = State([segment for arrived in arrivals for segment in arrived.everything.get(side, ())])
        return self._alone(context, side, came, *clocks_of(context, arrivals))

    def _alone(
        self, context: OperatorContext, side: int, rows: State, before: Watermarks, now: Watermarks
    ) -> Frame | None:
        """The rows of a side that the watermark has passed by so much that no partner can come, and that have none."""
        closed, closing = (behind(clock, self.node.waits_us[side]) for clock in (before, now))
        time = str(self.node.state[side].time)
        due = due_rows(context, rows, time, closed, closing)
        due = unanswered(context, side, due, self.node.waits_us[side])
        if due is None:
            return None
        due = self._of_readers(context, context.in_company(side, due))
        going = moving(closed, closing)
        first, last = min(closed[query] for query in going), max(going.values())
        others = State(context.state(1 - side).between(*self._band.reach(1 - side, first, last)))
        partners = others.read(context.spark, sizes=context.sizes)
        if partners is not None:
            due = self._chosen(context, due, context.in_company(1 - side, partners), side, having=False)
        return self._own(context, due, side)

    def _of_readers(self, context: OperatorContext, rows: Frame) -> Frame:
        """Rows once for everybody whose they are, as the residual needs them."""
        rows = context.for_readers(context.tables.of_queries(rows))
        return context.tables.with_parameters(rows, self.node.residual or "")

    def _chosen(self, context: OperatorContext, rows: Frame, others: Frame, side: int, having: bool) -> Frame:
        few = isinstance(rows, LazyFrame) and isinstance(others, LazyFrame)
        one_query = len(context.tables.queries) == 1
        others = context.for_readers(context.tables.of_queries(others))
        return chosen(rows, others, self.node.inner, side, having, one_query=one_query, hashed=few)

    def _own(self, context: OperatorContext, rows: Frame, side: int) -> Frame:
        """A side's rows as results: the other side's columns, where they come out, are NULL."""
        mine, others = (self.node.left, self.node.right)[:: 1 if side == 0 else -1]
        missing = () if self.node.how in ("semi", "anti") else others
        nothing = [f"CAST(NULL AS {column.type}) AS `{column.name}`" for column in missing]
        return rows.selectExpr(QUERY, *(f"`{column.name}`" for column in mine), *nothing)
