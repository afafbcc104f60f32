"""What must be re-placed after changes: found from the broken connections upwards, never by looking at everything.

An instance stays where it is as long as its node exists and still lies on the way of the rows it gets. So when a device
moves, its own branch follows it, a join above stays if the device's rows still pass there, and what lies above an
instance that must move is asked the same question in turn.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from godwit.model.global_plan import Edge
from godwit.model.instances import InstanceId
from godwit.model.routes import Way
from godwit.placement.rules.base import PlacementContext, is_pinned, meet


def must_move(ground: PlacementContext, broken: Iterable[Edge], homeless: Iterable[InstanceId]) -> list[InstanceId]:
    """The instances to place again, producers first.

    `broken` are connections whose route is gone, `homeless` instances without a (usable) node.
    """
    search = _Search(ground, broken, homeless)
    return search.run()


class _Search:
    def __init__(self, ground: PlacementContext, broken: Iterable[Edge], homeless: Iterable[InstanceId]) -> None:
        self._ground = ground
        self._homeless = set(homeless)
        #: instance -> its producers whose rows may come another way now
        self._suspects: dict[InstanceId, list[InstanceId]] = {}
        for producer, consumer in broken:
            self._suspects.setdefault(consumer, []).append(producer)
        self._moving: set[InstanceId] = set()
        self._spans: dict[InstanceId, Way | None] = {}

    def run(self) -> list[InstanceId]:
        order = self._ground.plan.instances
        queue = [(order[i].depth, i) for i in {*self._homeless, *self._suspects}]
        heapq.heapify(queue)
        seen: set[InstanceId] = set()
        while queue:
            _, instance = heapq.heappop(queue)
            if instance in seen:
                continue
            seen.add(instance)
            if self._must(instance):
                self._moving.add(instance)
                for consumer in self._ground.plan.consumers.get(instance, ()):
                    self._suspects.setdefault(consumer, []).append(instance)
                    heapq.heappush(queue, (order[consumer].depth, consumer))
        return sorted(self._moving, key=lambda i: (order[i].depth, i))

    def _must(self, instance: InstanceId) -> bool:
        node = self._ground.placement.get(instance)
        if instance in self._homeless or node is None:
            return True
        if is_pinned(self._ground.plan.instances[instance]):
            return False
        spans = [self._span(p, instance) for p in self._suspects.get(instance, ())]
        return any(span is not None and node not in span for span in spans)

    def _span(self, producer: InstanceId, consumer: InstanceId) -> Way | None:
        """The nodes that the producer's rows pass from now on; None: unknown; empty: they cannot pass."""
        node = self._ground.placement.get(producer)
        if producer in self._moving or node is None:
            return self._span_of_moving(producer)
        if self._ground.away(node):
            return None
        return self._ground.way(consumer, node) or ()

    def _span_of_moving(self, instance: InstanceId) -> Way | None:
        if instance not in self._spans:
            scan = self._ground.plan.instances[instance]
            if scan.kind == "Scan" and scan.pinned is not None:
                way = None if self._ground.away(scan.pinned) else self._ground.way(instance, scan.pinned) or ()
                self._spans[instance] = way
            else:
                below = [self._span(p, instance) for p in self._ground.plan.producers.get(instance, ())]
                ways = [way for way in below if way is not None]
                self._spans[instance] = meet(ways) if ways else None
        return self._spans[instance]
