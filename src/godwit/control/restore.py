"""A planner that stands where an earlier process left it: every instance at its published place, nothing replanned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from godwit.control.plan_state import Planner
from godwit.control.stage_builder import finish
from godwit.ids import NodeId, QueryId, SiteId
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId, instance_id
from godwit.model.plan import Query
from godwit.model.taps import leaders_first
from godwit.placement.rules.base import HintKey, Ways


@dataclass(frozen=True)
class Hints:
    """What users and admission have asked for, which the deployment's rows do not say."""

    #: where the results of a query must leave
    sinks: Mapping[QueryId, SiteId] = field(default_factory=dict)
    by_hand: Mapping[InstanceId, SiteId] = field(default_factory=dict)
    hints: Mapping[HintKey, SiteId] = field(default_factory=dict)
    ways: Mapping[HintKey, Ways] = field(default_factory=dict)


def restore(planner: Planner, before: Deployment, hints: Hints) -> None:
    """Take in all queries of a deployment as they were placed. The planner's topology must be the deployment's."""
    planner.recall(before)
    for site, region in before.sites.items():
        if site not in planner.topology.sites:  # it left, but something without a place has its state there
            planner.rows.sites[site] = region
            planner.departed_sites[site] = None
    planner.ground.take_hints(hints.hints, hints.ways)
    for query in leaders_first(before.queries.values()):
        planner.take_in(query, hints.sinks.get(query.id), _root(planner, before, query, hints))
        _put(planner, before, query.id)
    planner.pin(hints.by_hand)
    for edge in sorted({edge for i in planner.ground.placement for edge in planner.plan.edges_at(i)}):
        planner.reroute(edge)
    finish(planner, 0, "restored")
    planner.journal.forget()
    for name, node in planner.rows.placement.items():
        if before.queries[name.query].shape.plan.operators[name.operator].stateful:
            planner.custody.placed(name, node)


def _root(planner: Planner, before: Deployment, query: Query, hints: Hints) -> NodeId:
    """The site that the query's rows travel to: its sink's, unless that was put elsewhere by hand."""
    sink = instance_id(query.id, len(query.shape.plan.operators) - 1)
    pinned = hints.sinks.get(query.id)
    if pinned is not None:
        return NodeId(pinned)
    placed = before.placement.get(sink)
    known = placed is not None and sink not in hints.by_hand and planner.topology.has(placed)
    return placed if known and placed is not None else planner.default_root()


def _put(planner: Planner, before: Deployment, query: QueryId) -> None:
    parked = before.parked.get(query)
    if parked is not None:
        planner.journal.put(planner.rows.parked, query, parked)
    for name, instance in planner.plan.uses(query).items():
        node = before.placement.get(name)
        if node is None or instance in planner.ground.placement:
            continue
        if planner.has_no_place(query):
            planner.leave(instance, node)
        else:
            planner.leave(instance, None)
            planner.ground.put(instance, node)
