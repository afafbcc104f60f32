"""Versions of queries end, others begin, in one epoch: rows, placement and what is handed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from godwit.control.events import PlanChanged, QueryAdjusted
from godwit.control.plan_state import Planner
from godwit.ids import Epoch, QueryId, RegionId, SiteId
from godwit.model.instances import instance_id
from godwit.model.keys import BUCKETS, REST, HashRange
from godwit.model.plan import Query
from godwit.placement.rules.base import Infeasible
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import epoch_of
from godwit.replan.tracks import answers, of_new, runs_both


def change_plan(planner: Planner, request: PlanChanged) -> Infeasible | None:
    """Place the new versions; without a place for one of them nothing happens, and the old ones go on."""
    mark, queries = planner.journal.mark(), planner.rows.queries
    if any(one.old not in queries for one in request.changes):
        return None  # withdrawn meanwhile
    ending = [name for name in (*(one.old for one in request.changes), *request.ends) if name in queries]
    if not _is_whole(planner, request, ending):
        first = instance_id(request.old, 0)
        return Infeasible(first, "site", "others have begun or ceased to share operators with it; ask again")
    if not all(_is_placed(planner, queries[name]) for name in ending):
        return Infeasible(instance_id(request.old, 0), "site", "it has no place now; ask again when it has")
    if _keys_migrate(planner, ending):
        return Infeasible(instance_id(request.old, 0), "site", "keys of it migrate; ask again when they have")
    for name in ending:
        _end(planner, queries[name])
    for one in request.changes:
        fault = planner.add_query(replace(one.query, inherits=one.old), one.sink, one.hints, {})
        if fault is not None:
            planner.journal.undo(mark)
            planner.take_pending()
            return fault
        _read_from(planner, one.old, one.query.id)
    leaving = [replace(move, leaves=True) for name in ending for move in _stateful(planner, queries[name])]
    coming = [move for one in request.changes for move in _inherited(planner, one.query.id, request.wait)]
    planner.pending_moves([*leaving, *coming])
    for name in ending:
        planner.vacate(name)  # what is under way to it must meet the state that it leaves, so it moves no more
    return None


def _is_whole(planner: Planner, request: PlanChanged, ending: Sequence[QueryId]) -> bool:
    """Whether nobody is left behind who taps one that ends, and who was withdrawn meanwhile is not brought back."""
    queries = planner.rows.queries
    tapped = all(reader in ending for name in ending for reader in planner.plan.readers_of(name))
    return tapped and not any(queries[one.old].unseen for one in request.changes)


def _is_placed(planner: Planner, query: Query) -> bool:
    uses, placement = planner.plan.uses(query.id), planner.ground.placement
    stateful = [i for i, node in enumerate(query.shape.plan.operators) if node.stateful and i in query.executed]
    return all(uses[instance_id(query.id, i)] in placement for i in stateful)


def _keys_migrate(planner: Planner, ending: Sequence[QueryId]) -> bool:
    tables = [table for (query, _), table in planner.rows.key_routes.items() if query in ending]
    copied = any(route.copied for table in tables for route in table.coarse)
    return copied or not planner.suspended.keys().isdisjoint(ending)


def _end(planner: Planner, old: Query) -> None:
    regions = {i: _regions(planner, old.id, i) for i in range(len(old.shape.plan.operators))}
    ended = replace(
        old,
        until=int(epoch_of(planner.session)),
        internal=True,
        finishes=not old.unseen,
        left_in={operator: found for operator, found in regions.items() if len(found) > 1},
    )
    planner.journal.put(planner.rows.queries, old.id, ended)


def _regions(planner: Planner, query: QueryId, operator: int) -> tuple[RegionId, ...]:
    """Those over which keys of an operator are divided; none, if they are not."""
    table = planner.rows.key_routes.get((query, operator))
    return () if table is None else tuple(sorted({route.process for route in table.coarse}))


def _read_from(planner: Planner, old: QueryId, new: QueryId) -> None:
    """Queries of other shapes that read a cut read its next version."""
    for query in [query for query in planner.rows.queries.values() if old in query.parts]:
        parts = tuple(new if part == old else part for part in query.parts)
        planner.journal.put(planner.rows.queries, query.id, replace(query, parts=parts))


def _inherited(planner: Planner, new: QueryId, wait: bool) -> Iterator[Migration]:
    plan = planner.rows.queries[new].shape.plan
    later = of_new(plan) if runs_both(plan) and answers(plan) == "later" else ()
    for move in _stateful(planner, planner.rows.queries[new]):
        yield replace(move, inherits=True, wait=wait or move.operator in later, ordered=False)


def adjust_query(planner: Planner, request: QueryAdjusted) -> None:
    """One row changes; nothing moves."""
    known = planner.rows.queries.get(request.query)
    if known is not None:
        adjusted = replace(known, probes=request.probes, successor=request.successor)
        planner.journal.put(planner.rows.queries, known.id, adjusted)


def _stateful(planner: Planner, query: Query) -> Iterator[Migration]:
    """A move for each stateful operator that a query executes itself, from where it is to the same place."""
    uses = planner.plan.uses(query.id)
    for operator, node in enumerate(query.shape.plan.operators):
        if node.stateful and operator in query.executed and operator not in query.taps:
            site = SiteId(planner.ground.placement[uses[instance_id(query.id, operator)]])
            here = planner.rows.sites[site]
            # With divided keys every region leaves what it has: a new version begins with all of it in one place.
            for region in query.left_in.get(operator, (here,)):
                keys = HashRange(0, BUCKETS) if operator in query.left_in else REST
                yield Migration(Epoch(0), query.id, operator, region, region, site, site, keys)
