"""Bottom-up: every operator as near to its sources as capacities allow.

An operator goes to the first site on the common way of its inputs that has room: a filter where its device is attached,
a join where the ways of its two inputs first meet.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.model.instances import InstanceId
from godwit.placement.rules.base import Infeasible, PlacementContext, each


def place(ground: PlacementContext, todo: Sequence[InstanceId]) -> Infeasible | None:
    def one(instance: InstanceId) -> Infeasible | None:
        way = ground.common_way(instance)
        return way if isinstance(way, Infeasible) else ground.put_first(instance, way)

    return each(ground, todo, one)
