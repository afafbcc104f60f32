"""What a change of plan would do, as text: orders, what becomes of each state, and the forecast of each strategy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from godwit.model.plan import Query
from godwit.replan import auto
from godwit.replan.box import JoinBox, Streams, reordered
from godwit.replan.forecast import DEFAULTS, ChangeCase, CostConstants, forecasts
from godwit.replan.join_tree import JoinTree
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.steps import BoxChange, possible


def explain_change(
    query: Query,
    order: JoinTree,
    streams: Streams,
    load: BoxLoad,
    constants: CostConstants = DEFAULTS,
    *,
    probing: bool = False,
) -> str:
    """What `godwit replan --dry-run` prints; nothing is changed."""
    box = JoinBox.of(query.shape.plan, streams)
    order = box.checked(order)
    if order.same_order(box.tree):
        return f"{query.id}: {box.tree} is the order it has; nothing would change"
    found = match(query, reordered(query, order, streams), streams)
    case = ChangeCase(box.tree, order, load, spans_of(query, streams), constants)
    can = possible(BoxChange(found, probing=probing))
    lines = [f"{query.id}: {box.tree}  ->  {order}", *_states(found), "forecast:"]
    return "\n".join([*lines, auto.explain(forecasts(case), can)])


def _states(found: StateMatch) -> Iterator[str]:
    yield f"shared:    {_sets(m.covers for m in found.matched if m.covers)}"
    yield f"computed:  {_sets(step.covers for step in found.recompute)}"
    if found.short:
        lacking = ", ".join(f"{' '.join(m.covers)} by {m.short_us / 1e6:g} s" for m in found.short)
        yield f"too short: {lacking}"
    yield f"discarded: {len(found.discard)} of the old plan's"


def _sets(covers: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(" ".join(each) for each in sorted(covers, key=lambda c: (len(c), c))) or "none"
