"""What a change of plan would do, for people: what becomes of each state, how it can be made, and at which cost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from godwit.model.plan import Join, Query
from godwit.replan import auto
from godwit.replan.box import JoinBox, Streams
from godwit.replan.forecast import DEFAULTS, ChangeCase, CostConstants, forecasts
from godwit.replan.join_tree import JoinTree
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.steps import BoxChange, possible
from godwit.replan.wishes import PlanWish, rewritten


def explained(
    query: Query,
    wish: PlanWish,
    streams: Streams,
    load: BoxLoad | None = None,
    constants: CostConstants = DEFAULTS,
    *,
    probing: bool = False,
    ran: Collection[str] = (),
) -> str:
    """What a dry run prints; with a forecast where the load is known. `ran`: keys of shapes that are compiled.
    ConfigError, with place and remedy, where the plan cannot be."""
    new = rewritten(query, wish, streams)
    if new is None:
        return f"'{query.id}' has this plan: {wish}; nothing would change"
    found = match(query, new, streams)
    can = possible(BoxChange(found, probing=probing))
    was, then = (_order(one, streams) for one in (query, new))
    lines = [f"now:       {was or 'as it is'}", f"then:      {_then(wish, then)}", *_states(found)]
    if load is None or was is None or then is None or was.same_order(then):
        return "\n".join([*lines, f"possible:  {', '.join(can)}"])
    span_s = JoinBox.of(query.shape.plan, streams).span_us / 1e6
    fresh, geometry = new.shape.key not in ran, spans_of(query, streams)
    case = ChangeCase(was, then, load, geometry, constants, span_s=span_s, fresh=fresh)
    return "\n".join([*lines, "forecast:", auto.explain(forecasts(case), can)])


def _order(query: Query, streams: Streams) -> JoinTree | None:
    joins = any(isinstance(operator, Join) for operator in query.shape.plan.operators)
    return JoinBox.of(query.shape.plan, streams).tree if joins else None


def _then(wish: PlanWish, tree: JoinTree | None) -> str:
    rest = str(replace(wish, order=""))
    return ", ".join(part for part in (str(tree) if wish.order else "", rest) if part)


def _states(found: StateMatch) -> Iterator[str]:
    yield f"shared:    {_sets(m.covers for m in found.matched if m.covers)}"
    yield f"computed:  {_sets(step.covers for step in found.recompute)}"
    if found.short:
        lacking = ", ".join(f"{' '.join(m.covers)} by {m.short_us / 1e6:g} s" for m in found.short)
        yield f"too short: {lacking} (only 'parallel-track' can change to it)"
    yield f"discarded: {len(found.discard)} of the old plan's"


def _sets(covers: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(" ".join(each) for each in sorted(covers, key=lambda c: (len(c), c))) or "none"
