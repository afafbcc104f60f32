"""Which instances leave a region that is silent: those that others still send rows to, and that have room elsewhere.

What only the silent region's own devices feed stays: nothing would come. What has no room elsewhere stays, too, and
waits with its state. The old owner hands over when it answers again; until then the new instance takes rows in,
and only its watermark is held.
"""

from __future__ import annotations

from godwit.control.plan_state import Planner
from godwit.ids import NodeId, RegionId
from godwit.model.instances import InstanceId
from godwit.placement.rules.base import Infeasible, is_pinned


def leaving(planner: Planner, region: RegionId) -> list[InstanceId]:
    """The region must be known as lost already."""
    ground = planner.ground
    sites = [site.id for site in planner.topology.sites.values() if site.region == region]
    here = [instance for site in sorted(sites) for instance in ground.hosted.get(NodeId(site), ())]
    return [instance for instance in here if _fed_by_others(planner, instance, region) and _has_room(planner, instance)]


def _fed_by_others(planner: Planner, instance: InstanceId, region: RegionId) -> bool:
    """Whether a scan below it is of a device that is attached to another region."""
    todo, seen = [instance], {instance}
    while todo:
        one = todo.pop()
        pinned = planner.plan.instances[one].pinned
        at = None if pinned is None else planner.topology.region_of(pinned)
        if planner.plan.instances[one].kind == "Scan" and at is not None and at != region:
            return True
        for producer in planner.plan.producers.get(one, ()):
            if producer not in seen:
                seen.add(producer)
                todo.append(producer)
    return False


def _has_room(planner: Planner, instance: InstanceId) -> bool:
    wanted = planner.plan.instances[instance]
    if is_pinned(wanted):
        return False
    way = planner.ground.common_way(instance)
    return not isinstance(way, Infeasible) and any(planner.ground.hosts(node, wanted) for node in way)
