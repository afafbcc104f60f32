"""One version of a query ends, another one begins, in one epoch: rows, placement and what is handed over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from godwit.control.events import PlanChanged, QueryAdjusted
from godwit.control.plan_state import Planner
from godwit.ids import Epoch, QueryId, SiteId
from godwit.model.instances import instance_id
from godwit.placement.rules.base import Infeasible
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import epoch_of
from godwit.replan.tracks import answers, of_new, runs_both


def change_plan(planner: Planner, request: PlanChanged) -> Infeasible | None:
    """Place the new version; without a place for it nothing happens, and the old one goes on."""
    mark, old = planner.journal.mark(), planner.rows.queries.get(request.old)
    if old is None:
        return None  # withdrawn meanwhile
    planner.journal.put(planner.rows.queries, old.id, replace(old, until=int(epoch_of(planner.session)), internal=True))
    new = replace(request.query, inherits=old.id)
    fault = planner.add_query(new, request.sink, request.hints, {})
    if fault is not None:
        planner.journal.undo(mark)
        planner.take_pending()
        return fault
    leaving = [replace(move, leaves=True) for move in _stateful(planner, old.id)]
    plan = new.shape.plan
    later = of_new(plan) if runs_both(plan) and answers(plan) == "later" else ()
    coming = [
        replace(m, inherits=True, wait=request.wait or m.operator in later, ordered=False)
        for m in _stateful(planner, new.id)
    ]
    planner.pending_moves([*leaving, *coming])
    return None


def adjust_query(planner: Planner, request: QueryAdjusted) -> None:
    """One row changes; nothing moves."""
    known = planner.rows.queries.get(request.query)
    if known is not None:
        adjusted = replace(known, probes=request.probes, successor=request.successor)
        planner.journal.put(planner.rows.queries, known.id, adjusted)


def _stateful(planner: Planner, query: QueryId) -> Iterator[Migration]:
    """A move for each stateful operator of a query, from where it is to the same place."""
    uses = planner.plan.uses(query)
    for operator, node in enumerate(planner.rows.queries[query].shape.plan.operators):
        if node.stateful:
            site = SiteId(planner.ground.placement[uses[instance_id(query, operator)]])
            region = planner.rows.sites[site]
            yield Migration(Epoch(0), query, operator, region, region, site, site)
