"""Nearest common ancestor: all of a query's operators on the nearest site that all of its rows pass.

One sub-plan in the middle between the sources and the sink; where that site is full, operators go on towards the sink.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.ids import NodeId
from godwit.model.instances import InstanceId
from godwit.model.routes import Way
from godwit.placement.rules.base import Infeasible, PlacementContext, each, meet


def place(ground: PlacementContext, todo: Sequence[InstanceId]) -> Infeasible | None:
    def one(instance: InstanceId) -> Infeasible | None:
        way = _ancestors(ground, instance)
        return way if isinstance(way, Infeasible) else ground.put_first(instance, way)

    return each(ground, todo, one)


def _ancestors(ground: PlacementContext, instance: InstanceId) -> Way | Infeasible:
    """The sites that the rows of all devices of the instance's queries pass, nearest first."""
    devices = {
        ground.plan.instances[used].device
        for query in ground.plan.users(instance)
        for used in ground.plan.uses(query).values()
        if ground.plan.instances[used].kind == "Scan"
    }
    ways = []
    for device in devices:
        attached = None if device is None else ground.topology.devices.get(device)
        if attached is not None and attached.site is not None:
            way = ground.way(instance, NodeId(attached.site))
            if way is None:
                return ground.no_path(instance, NodeId(attached.site))
            ways.append(way)
    return meet(ways) if ways else (ground.root[instance],)
