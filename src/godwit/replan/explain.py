"""What a change of plan would do, for people: which state is shared, which is computed, how it can be made."""

from __future__ import annotations

from godwit.model.plan import Query
from godwit.replan.box import JoinBox, Streams, reordered
from godwit.replan.matching import match
from godwit.replan.steps import BoxChange, possible


def explained(query: Query, order: str, streams: Streams) -> str:
    """ConfigError, with place and remedy, where the order cannot be."""
    box = JoinBox.of(query.shape.plan, streams)
    tree = box.order(order)
    if tree.same_order(box.tree):
        return f"'{query.id}' joins in this order: {box.tree}; nothing would change"
    states = match(query, reordered(query, tree, streams), streams)
    shared = [" ".join(one.covers) or "what stays above the joins" for one in states.matched]
    computed = [" ".join(one.covers) for one in states.recompute]
    lines = [f"now:      {box.tree}", f"then:     {tree}", f"shared:   {', '.join(dict.fromkeys(shared)) or 'nothing'}"]
    lines.append(f"computed: {', '.join(computed) or 'nothing'}")
    if states.short:
        short = ", ".join(f"{' '.join(one.covers)} by {one.short_us / 1e6:g} s" for one in states.short)
        lines.append(f"too short: {short} (only 'parallel-track' can change to it)")
    return "\n".join([*lines, f"possible: {', '.join(possible(BoxChange(states)))}"])
