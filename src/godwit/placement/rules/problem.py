"""Running instances as a placement problem: the topology's sites, and what is placed or to be placed on them.

Instances are taken together in groups that move as one. What is not free to move (a scan, a sink, a neighbour that
stays) is pinned where it is; a device counts as the site it is attached to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from godwit.errors import PlacementError
from godwit.ids import DeviceId, NodeId, SiteId
from godwit.model.instances import InstanceId
from godwit.model.topology import Site
from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator
from godwit.placement.rules.base import PlacementContext

#: the one platform: where an operator may run is a matter of sites here
SPARK = "spark"
#: what a row costs at an idle site (ms)
SERVICE_MS = 1.0


#: share of the rows that operators hand on, where it was not measured
SELECTIVITY = {"Filter": 0.5, "Partial": 0.5, "Aggregate": 0.2}


def same_everywhere(group: str, site: Site) -> float:
    return SERVICE_MS


def one_each(group: str) -> float:
    return 1.0


@dataclass(frozen=True)
class Groups:
    """Which instances there are, which of them may move, and where each group is now."""

    members: Mapping[str, tuple[InstanceId, ...]]
    free: frozenset[str]
    at: Mapping[str, SiteId]
    #: ms that one row of a group costs at a site
    ms: Callable[[str, Site], float] = same_everywhere
    #: Mbit/s that leave a group
    mbps: Callable[[str], float] = one_each
    objective: Objective = field(default_factory=Objective.latency_only)
    #: sites that may not be used
    shut: frozenset[SiteId] = frozenset()


def site_of(ground: PlacementContext, node: NodeId) -> SiteId | None:
    """The site a node counts as; None: a device that is away, or nothing that is there."""
    device = ground.topology.devices.get(DeviceId(node))
    if device is not None:
        return device.site
    return SiteId(node) if SiteId(node) in ground.topology.sites else None


def build(ground: PlacementContext, groups: Groups) -> Problem:
    """The problem whose root is where the groups are; every free group must have a site to begin with."""
    network = _network(ground, groups)
    costs = {name: sum(ground.plan.instances[i].cost for i in members) for name, members in groups.members.items()}
    operators = tuple(WorkflowOperator(n, cpu=costs[n] if n in groups.free else 0.0) for n in groups.members)
    workflow = Workflow("fleet", operators, tuple(_edges(ground, groups)))
    names = [operator.name for operator in workflow.operators]
    sites = [ground.topology.sites[SiteId(site.name)] for site in network.sites]
    shape = (len(names), len(sites))
    tables = CostTables(
        np.array([[groups.ms(name, site) for site in sites] for name in names]).reshape(shape),
        np.ones(shape),
        np.array([edge.mbps for edge in workflow.edges]),
        np.array([SERVICE_MS * sum(ground.plan.instances[i].stateful for i in groups.members[n]) for n in names]),
        np.ones(len(names)),
    )
    pinned = tuple((name, (str(groups.at[name]),)) for name in names if name not in groups.free)
    open_ = tuple(site.name for site in network.sites if SiteId(site.name) not in groups.shut)
    kept = tuple((name, open_) for name in names if name in groups.free and len(open_) < len(sites))
    constraints = Constraints(pinned=(*pinned, *kept), cpu=True)
    root = tuple(network.index[groups.at[name]] for name in names)
    return build_problem(workflow, network, tables, root, groups.objective, constraints)


def where(problem: Problem, plan: PlanVector) -> dict[str, SiteId]:
    """Group -> site."""
    return {name: SiteId(site) for name, (site, _) in problem.describe(plan).items()}


def _network(ground: PlacementContext, groups: Groups) -> Network:
    """The sites that can be reached from where the groups are, with what the groups themselves take counted as free."""
    topology = ground.topology
    mine: dict[NodeId, float] = {}
    for name in groups.free:
        for instance in groups.members[name]:
            node = ground.placement.get(instance)
            if node is not None:
                mine[node] = mine.get(node, 0.0) + ground.plan.instances[instance].cost
    reached, waiting = set[NodeId](), [NodeId(next(iter(groups.at.values())))]
    while waiting:
        node = waiting.pop()
        if node not in reached and SiteId(node) in topology.sites:
            reached.add(node)
            waiting += topology.neighbours(node)
    sites = tuple(
        NetworkSite(s, (SPARK,), max(0.0, ground.free(s) + mine.get(s, 0.0)), kind=topology.sites[SiteId(s)].kind)
        for s in reached
    )
    lost = sorted({str(site) for site in groups.at.values() if NodeId(site) not in reached})
    if lost:
        msg = f"no path leads to {', '.join(lost)}; add a link"
        raise PlacementError(msg)
    links = (link for link in topology.links.values() if NodeId(link.a) in reached)
    return Network(sites, tuple(NetworkLink(link.a, link.b, link.ms, link.mbps) for link in links))


def _edges(ground: PlacementContext, groups: Groups) -> Iterable[DataEdge]:
    group_of = {instance: name for name, members in groups.members.items() for instance in members}
    found: dict[tuple[str, str], None] = {}
    for instance, name in group_of.items():
        for consumer in ground.plan.consumers.get(instance, ()):
            if group_of.get(consumer, name) != name:
                found[name, group_of[consumer]] = None
    return (DataEdge(a, b, groups.mbps(a)) for a, b in found)
