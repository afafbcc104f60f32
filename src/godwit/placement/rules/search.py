"""Search: places by the placement search suite (`auto`, a fifth of a second), from where the instances were.

Bottom-up makes the first plan, so there is one even if time is short; the search looks for one of less latency and
less traffic that moves little, within the CPU of the sites. What it does not have to place stays where it is. Unlike
the other rules it may leave the way from the sources to the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from godwit.errors import PlacementError
from godwit.ids import NodeId, SiteId
from godwit.model.instances import InstanceId
from godwit.placement.cost_models.cost import Objective
from godwit.placement.rules import bottom_up
from godwit.placement.rules.base import Infeasible, PlacementContext, is_pinned
from godwit.placement.rules.problem import SELECTIVITY, SPARK, Groups, build, site_of, where
from godwit.placement.search.base import Options, search

#: seconds that one search may take
BUDGET = 0.2
OBJECTIVE = Objective.weighted(throughput=0.0, latency=0.5, traffic=0.4, migration=0.1)


def place(ground: PlacementContext, todo: Sequence[InstanceId]) -> Infeasible | None:
    mark = ground.journal.mark()
    pinned = [i for i in todo if is_pinned(ground.plan.instances[i])]
    free = [i for i in todo if i not in pinned and ground.hint(i) is None]
    fault = bottom_up.place(ground, todo)
    first = {i: ground.placement[i] for i in todo if i in ground.placement}
    if fault is not None:
        # No room on the ways from the sources to the sink; there may be some beside them.
        ground.journal.undo(mark)
        first, free = {}, [i for i in todo if i not in pinned]
        for instance in pinned:
            missing = ground.put_pinned(instance)
            if missing is not None:
                return missing
    chosen = _search(ground, free, first, ground.before) if free else None
    for instance, node in (chosen or {}).items():
        ground.put(instance, node)
    return None if chosen else fault


def _search(
    ground: PlacementContext, free: list[InstanceId], first: dict[InstanceId, NodeId], before: dict[InstanceId, NodeId]
) -> dict[InstanceId, NodeId] | None:
    """A place for each free instance; None: none was found."""
    groups = _groups(ground, free, first, before)
    try:
        problem = build(ground, groups)
        start = problem.plan_of({n: (str(first.get(i, groups.at[n])), SPARK) for n, (i,) in groups.members.items()})
        answer = search(problem, Options("auto", seconds=BUDGET, start=start))
    except PlacementError:
        return None
    chosen = where(problem, answer.plan)
    return {instance: NodeId(chosen[str(instance)]) for instance in free}


def _groups(
    ground: PlacementContext, free: list[InstanceId], first: dict[InstanceId, NodeId], before: dict[InstanceId, NodeId]
) -> Groups:
    """Each free instance by itself, and the neighbours that stay."""
    at: dict[InstanceId, SiteId] = {}
    for instance in free:
        known = (before.get(instance), first.get(instance), ground.root[instance])
        at[instance] = next(SiteId(n) for n in known if n is not None and SiteId(n) in ground.topology.sites)
    for instance in free:
        for neighbour in ground.plan.neighbours(instance):
            node = ground.placement.get(neighbour)
            site = None if node is None else site_of(ground, node)
            if neighbour not in at and site is not None:
                at[neighbour] = site
    members, sites = {str(i): (i,) for i in at}, {str(i): site for i, site in at.items()}
    shut = frozenset(s.id for s in ground.topology.sites.values() if s.region in ground.lost_regions)
    return Groups(
        members, frozenset(map(str, free)), sites, mbps=_mbps(ground, members), objective=OBJECTIVE, shut=shut
    )


def _mbps(ground: PlacementContext, members: Mapping[str, tuple[InstanceId]]) -> Callable[[str], float]:
    """What leaves an instance, in units of what one device sends: filters and aggregates thin it out."""

    @cache
    def mbps(instance: InstanceId) -> float:
        below = sum(mbps(p) for p in ground.plan.producers.get(instance, ())) or 1.0
        return below * SELECTIVITY.get(ground.plan.instances[instance].kind, 1.0)

    return lambda name: mbps(members[name][0])
