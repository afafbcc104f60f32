"""The probing join: every new row looks up the other streams, one after the other, and nothing in between is kept.

Of inputs 0 to n-1, new rows of input k meet all rows of the inputs before it, new ones included, and the rows that were
there of those behind it: so every combination is found once, by its last new row. State that arrives from another
region is one more delta: its rows meet those that are here; they have met each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.ids import QueryId
from godwit.model.plan import GENERATION, QUERY, Join
from godwit.model.probes import ProbeJoin
from godwit.operators.band_join import rounds
from godwit.operators.base import OperatorContext, StatefulOperator, implements
from godwit.operators.join import pairs
from godwit.protocol.watermarks import NEVER
from godwit.region.sql_text import text
from godwit.region.state import State, union
from godwit.replan.probing import chain, within_us
from godwit.storage.log import Segment

#: 1: all rows of the combination arrived together, so they have met each other; the same of what is probed
TOGETHER, _THEIRS = "__together", "__their_together"
#: a generation that goes along through several joins
_GENERATION = "__generation"


@dataclass(frozen=True)
class Probing:
    """Rows of one input that probe, and of each other input what they find there."""

    start: int
    rows: State
    others: Mapping[int, State]
    #: of rows that arrived: those of each other input that came with them, where combinations of these alone are found
    arrived: Mapping[int, State] | None = None

    @property
    def size(self) -> int:
        return max(self.rows.rows, *(state.rows for state in self.others.values()))


@implements(ProbeJoin)
class ProbeJoinOperator(StatefulOperator):
    def __init__(self, node: ProbeJoin) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        made = self._made(context, self._take_in(context, inputs))
        context.hand_over()
        _, now = context.advance()
        clock = context.dead_before(now)
        for side, stream in enumerate(self.node.streams):
            context.tidy(side, clock - stream.stays_us - 1)
        return made

    def _take_in(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> list[Probing]:
        """New rows and state that has arrived become state; returned is who probes what."""
        sides = range(len(inputs))
        new = [State(self._new(context, side, frame)) for side, frame in enumerate(inputs)]
        found = [self._probing(context, start, new) for start in sides]
        for side in sides:
            context.state(side).live += new[side].live
        for together in rounds(context.arrivals()):
            came = [State([s for one in together for s in one.parts.get(side, ())]) for side in sides]
            found += [self._probing(context, start, came, arrived=True) for start in sides]
            for side in sides:
                context.state(side).live += came[side].live
        return [one for one in found if one.rows.live and all(state.live for state in one.others.values())]

    def _new(self, context: OperatorContext, side: int, frame: Frame | None) -> list[Segment]:
        lag = self.node.streams[side].lag_us
        since = {query: clock - lag for query, clock in context.released().items() if clock > NEVER}
        return context.admit(side, None if frame is None else context.tables.without_parameters(frame), since)

    def _probing(self, context: OperatorContext, start: int, new: Sequence[State], arrived: bool = False) -> Probing:
        rows, others, met = new[start], dict[int, State](), dict[int, State]()
        for side in range(len(new)):
            if side != start and rows.live:
                band = self._band(start, side, rows)
                here = context.state(side).between(*band)
                also = State(list(new[side].live)).between(*band) if side < start else []
                others[side], met[side] = State([*here, *also]), State(also)
        # Rows that came together meet nobody else where each of the others came with them: only behind the last.
        last = arrived and start == len(new) - 1
        return Probing(start, rows, others, met if last else None)

    def _band(self, start: int, side: int, rows: State) -> tuple[int, int]:
        band = within_us(self.node, start, side)
        if band is None or rows.low is None or rows.high is None:
            return NEVER, -NEVER
        return rows.low + band[0], rows.high + band[1]

    # --- combinations

    def _made(self, context: OperatorContext, found: Sequence[Probing]) -> Frame | None:
        if not found:
            return None
        context.makes_few(context.few and context.sizes.is_small(max(one.size for one in found)))
        orders: dict[tuple[str, ...], list[QueryId]] = {}
        for query in context.tables.queries.values():
            orders.setdefault(query.probes, []).append(query.id)
        return union(
            self._probed(context, one, order, queries if len(orders) > 1 else ())
            for one in found
            for order, queries in orders.items()
        )

    def _probed(
        self, context: OperatorContext, one: Probing, order: tuple[str, ...], queries: Sequence[QueryId]
    ) -> Frame | None:
        """`queries`: those that probe in this order, where not all do. Few rows find partners in one stream after the
        other, and end where they find none."""
        few, arrived = context.sizes.is_small(one.size), one.arrived is not None
        flag = [f"1 AS {TOGETHER}"] if arrived else []
        rows = self._read(context, one.rows).selectExpr("*", f"{GENERATION} AS {_GENERATION}", *flag)
        if queries:
            rows = rows.where(f"{QUERY} IN ({', '.join(map(text, queries))})")
        for side, join in chain(self.node, one.start, order):
            rows = self._met(context, rows, self._theirs(context, one, side), join, few, arrived)
            if isinstance(rows, LazyFrame):
                rows = rows.now()
                if not rows.rows:
                    return None
        rows = rows.where(f"{TOGETHER} = 0").drop(TOGETHER) if arrived else rows
        return rows.drop(_GENERATION, GENERATION)

    def _theirs(self, context: OperatorContext, one: Probing, side: int) -> Frame:
        if one.arrived is None:
            return self._read(context, one.others[side])
        came = set(map(id, one.arrived[side].live))
        parts = [State([s for s in one.others[side].live if (id(s) in came) == flag]) for flag in (False, True)]
        read = [self._read(context, part) if part.live else None for part in parts]
        flagged = [None if f is None else f.selectExpr("*", f"{n} AS {_THEIRS}") for n, f in enumerate(read)]
        found = union(flagged)
        assert found is not None
        return found

    def _read(self, context: OperatorContext, state: State) -> Frame:
        frame = state.read(context.spark, sizes=context.sizes)
        assert frame is not None
        return context.tables.of_queries(frame)

    def _met(self, context: OperatorContext, rows: Frame, theirs: Frame, join: Join, few: bool, arrived: bool) -> Frame:
        tables = context.tables
        one_query = len(tables.queries) == 1
        found = pairs(rows, theirs, join, one_query=one_query, hashed="left" if few else None)
        if join.residual is not None:
            found = tables.without_parameters(tables.with_parameters(found, join.residual).where(join.residual))
        others = [f"`{name}`" for name in found.columns if name not in (TOGETHER, _THEIRS)]
        both = [f"least({TOGETHER}, {_THEIRS}) AS {TOGETHER}"] if arrived else []
        return found.selectExpr(*others, *both, f"{_GENERATION} AS {GENERATION}")
