"""What a change of plan would do, for people: what becomes of each state, how it can be made, and at which cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from godwit.model.plan import Query
from godwit.replan import auto
from godwit.replan.box import JoinBox, Streams, reordered
from godwit.replan.forecast import DEFAULTS, ChangeCase, CostConstants, forecasts
from godwit.replan.load import BoxLoad, spans_of
from godwit.replan.matching import StateMatch, match
from godwit.replan.steps import BoxChange, possible


def explained(
    query: Query,
    order: str,
    streams: Streams,
    load: BoxLoad | None = None,
    constants: CostConstants = DEFAULTS,
    *,
    probing: bool = False,
) -> str:
    """What a dry run prints; with a forecast where the load is known. ConfigError, with place and remedy, where the
    order cannot be."""
    box = JoinBox.of(query.shape.plan, streams)
    tree = box.order(order)
    if tree.same_order(box.tree):
        return f"'{query.id}' joins in this order: {box.tree}; nothing would change"
    found = match(query, reordered(query, tree, streams), streams)
    can = possible(BoxChange(found, probing=probing))
    lines = [f"now:       {box.tree}", f"then:      {tree}", *_states(found)]
    if load is None:
        return "\n".join([*lines, f"possible:  {', '.join(can)}"])
    case = ChangeCase(box.tree, tree, load, spans_of(query, streams), constants)
    return "\n".join([*lines, "forecast:", auto.explain(forecasts(case), can)])


def _states(found: StateMatch) -> Iterator[str]:
    yield f"shared:    {_sets(m.covers for m in found.matched if m.covers)}"
    yield f"computed:  {_sets(step.covers for step in found.recompute)}"
    if found.short:
        lacking = ", ".join(f"{' '.join(m.covers)} by {m.short_us / 1e6:g} s" for m in found.short)
        yield f"too short: {lacking} (only 'parallel-track' can change to it)"
    yield f"discarded: {len(found.discard)} of the old plan's"


def _sets(covers: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(" ".join(each) for each in sorted(covers, key=lambda c: (len(c), c))) or "none"
