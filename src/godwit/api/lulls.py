"""When migrations of keys begin in a running fleet: between two closes of their windows, and not one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from godwit.api.core import FleetCore
from godwit.control.events import KeysAsked
from godwit.ids import NodeId, QueryId
from godwit.migration.lulls import LONGEST_S, PACE_S, closes_regularly, lull, needed_us
from godwit.migration.phases import REPLICA, chosen
from godwit.model.instances import instance_id
from godwit.model.plan import Aggregate
from godwit.protocol.watermarks import NEVER

Place = tuple[QueryId, int]


class Lulls:
    """One per fleet; asked by its control loop alone. Of regions that are other processes nothing is known here."""

    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet
        #: how long a hand-over needs (microseconds); 0: it need not wait for windows
        self._needed: dict[Place, int] = {}
        #: since when something is held; when something last began
        self._since: dict[Place, float] = {}
        self._begun: dict[Place, float] = {}

    def asked(self, event: KeysAsked) -> KeysAsked:
        """The same, held where it had better not begin at once."""
        place = (event.query, event.operator)
        if not self._fleet.pool.running or event.strategy == REPLICA:
            return event
        self._needed[place] = max(self._needed.get(place, 0), self._windows_need(event))
        self._since.setdefault(place, time.monotonic())
        if place not in self._fleet.plane.keys.held and self.over(place):
            return event
        return replace(event, held=True)

    def over(self, place: Place) -> bool:
        """Whether what is held may begin; if so, it is taken to begin now."""
        now = time.monotonic()
        waited = now - self._since.setdefault(place, now)
        due = now >= self._begun.get(place, 0.0) + PACE_S and (not self._needed.get(place) or self._lull(place))
        if due or waited > LONGEST_S or not self._fleet.pool.running:
            self._begun = {**{p: at for p, at in self._begun.items() if now < at + PACE_S}, place: now}
            self._since.pop(place, None)
            self._needed.pop(place, None)
            return True
        return False

    def _windows_need(self, event: KeysAsked) -> int:
        """0 if the operator has no windows that close regularly, or does not switch at once."""
        node = self._fleet.deployment.queries[event.query].shape.plan.operators[event.operator]
        home = self._fleet.deployment.placement.get(instance_id(event.query, event.operator))
        way = self._fleet.plane.topology.path(home, NodeId(event.site)) or () if home is not None else ()
        hops = self._fleet.plane.topology.adjacency
        needed = needed_us(sum(hops[a][b]["ms"] for a, b in pairwise(way)))
        return needed if chosen(event.strategy, node) == "delta" and closes_regularly(node, needed) else 0

    def _lull(self, place: Place) -> bool:
        query = self._fleet.deployment.queries.get(place[0])
        if query is None:
            return True
        node = query.shape.plan.operators[place[1]]
        assert isinstance(node, Aggregate)
        return lull(node.window, self._clocks(place), self._needed[place])

    def _clocks(self, place: Place) -> Iterator[int]:
        """Watermarks of the operator, and of those above it, in the regions that have them."""
        query, deployment = self._fleet.deployment.queries[place[0]], self._fleet.deployment
        above = range(place[1], len(query.shape.plan.operators))
        owners = {index: deployment.owners(query, index) for index in above if index in query.executed}
        for runner in self._fleet.runners_of(query.shape.key):
            for index, regions in owners.items():
                clock = runner.kernel.released.get(index, {}).get(query.id, NEVER)
                if runner.region in regions and clock > NEVER:
                    yield clock
