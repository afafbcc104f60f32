"""What may be asked of a running query's plan, as one value: an order, partial aggregation, where filters are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from godwit.model.plan import Query
from godwit.replan.box import JoinBox, Streams, reordered
from godwit.replan.fault import fault
from godwit.replan.filters import pushed_down, pushed_up
from godwit.replan.partials import with_partials


@dataclass(frozen=True)
class PlanWish:
    """What is not said stays."""

    order: str = ""
    #: rows are combined before they travel, or not
    partial: bool | None = None
    #: streams whose filters go above the joins, and back below them
    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()

    def __str__(self) -> str:
        partial = {True: "partial aggregation", False: "no partial aggregation", None: ""}[self.partial]
        up, down = (f"filters of {', '.join(names)}" if names else "" for names in (self.up, self.down))
        told = [self.order, partial, up and f"{up} above the joins", down and f"{down} below the joins"]
        return ", ".join(part for part in told if part)


def rewritten(query: Query, wish: PlanWish, streams: Streams) -> Query | None:
    """The query under the plan that is wished for; None: it has that plan. ConfigError: it cannot have it."""
    if wish == PlanWish():
        msg = "nothing is asked for"
        raise fault(msg, remedy="name an order, partial aggregation on or off, or filters to push up or down")
    new = query
    if wish.order:
        box = JoinBox.of(query.shape.plan, streams)
        tree = box.order(wish.order)
        new = new if tree.same_order(box.tree) else reordered(new, tree, streams)
    for alias in wish.up:
        new = pushed_up(new, alias, streams)
    for alias in wish.down:
        new = pushed_down(new, alias, streams)
    if wish.partial is not None:
        new = with_partials(new, wish.partial)
    # Who shared an operator under its old number no longer does.
    return None if new.shape == query.shape else replace(new, taps={})
