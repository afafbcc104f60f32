"""The deployment tables as the planner writes them: through the journal, so that a delta is what the journal says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from godwit.ids import DeviceId, Epoch, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.model.deployment import Delta, Deployment
from godwit.model.instances import InstanceId
from godwit.model.journal import Journal
from godwit.model.plan import Query, Stream
from godwit.model.routing import RouteEdit, RouteTable
from godwit.model.topology import Topology

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Rows:
    """What is published to regions. No number of a session is given to a device twice: each epoch has a greater one.

    `stays` says in which region a device's session is; regions see that by `devices`.
    """

    queries: dict[QueryId, Query] = field(default_factory=dict)
    placement: dict[InstanceId, NodeId] = field(default_factory=dict)
    devices: dict[DeviceId, SiteId | None] = field(default_factory=dict)
    sites: dict[SiteId, RegionId] = field(default_factory=dict)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    feeds: dict[StreamId, tuple[DeviceId, ...]] = field(default_factory=dict)
    parked: dict[QueryId, str] = field(default_factory=dict)
    sessions: dict[DeviceId, int] = field(default_factory=dict)
    stays: dict[DeviceId, RegionId] = field(default_factory=dict)
    key_routes: dict[tuple[QueryId, int], RouteTable] = field(default_factory=dict)

    @staticmethod
    def of(topology: Topology) -> Rows:
        return Rows(
            devices={device.id: device.site for device in topology.devices.values()},
            sites={site.id: site.region for site in topology.sites.values()},
            stays={d: region for d in topology.devices if (region := topology.region_of(NodeId(d))) is not None},
        )

    def recall(self, before: Deployment) -> None:
        """Sessions and key routes as an earlier process left them."""
        self.sessions.update(before.sessions)
        self.stays.update(before.stays)
        self.key_routes.update(before.key_routes)

    def deployment(self, epoch: Epoch) -> Deployment:
        return Deployment(
            epoch,
            dict(self.queries),
            dict(self.placement),
            dict(self.devices),
            dict(self.sites),
            dict(self.sessions),
            dict(self.streams),
            dict(self.feeds),
            dict(self.parked),
            dict(self.stays),
            dict(self.key_routes),
        )

    def delta(
        self, journal: Journal, since: int, sessions: dict[DeviceId, int], forgotten: frozenset[DeviceId], cause: str
    ) -> Delta:
        """What was written since the mark."""
        devices, routes = journal.changed(self.devices, since), journal.changed(self.key_routes, since)
        return Delta(
            _now(self.queries, journal, since),
            _now(self.placement, journal, since),
            {d: self.devices[d] for d in devices if d in self.devices},
            _now(self.sites, journal, since),
            dict(sessions),
            feeds={s: self.feeds.get(s, ()) for s in journal.changed(self.feeds, since)},
            gone=frozenset(d for d in devices if d not in self.devices),
            cause=cause,
            parked=_now(self.parked, journal, since),
            key_routes={place: _edit(old, self.key_routes.get(place)) for place, old in routes.items()},
            forgotten=forgotten,
        )


def _now(table: Mapping[K, V], journal: Journal, since: int) -> dict[K, V | None]:
    return {key: table.get(key) for key in journal.changed(table, since)}


def _edit(old: RouteTable | None, new: RouteTable | None) -> RouteTable | RouteEdit | None:
    """What is written of a table: the difference, where there was one."""
    return new if old is None or new is None else new.since(old)
