"""What a batch of changes has done to the ground, compared with the topology before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from godwit.ids import DeviceId, NodeId, SiteId
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
)
from godwit.model.topology import Topology


@dataclass
class Touched:
    """Only what differs between the two topologies, whatever happened in between; failures always count."""

    #: links, a device's own among them, that rows can no longer take
    cut: set[frozenset[NodeId]] = field(default_factory=set)
    #: links between sites that came, went or changed: the routes must know
    links: set[frozenset[SiteId]] = field(default_factory=set)
    sites: set[SiteId] = field(default_factory=set)
    failed: set[SiteId] = field(default_factory=set)
    devices: set[DeviceId] = field(default_factory=set)


def touched(old: Topology, new: Topology, changes: Iterable[Change]) -> Touched:
    found = Touched()
    for change in changes:
        match change:
            case LinkAdded(link):
                found.links.add(link.ends)
            case LinkRemoved(a, b):
                found.links.add(frozenset((a, b)))
            case SiteAdded(site):
                found.sites.add(site.id)
            case SiteRemoved(site_id):
                _site_went(found, old, site_id)
            case SiteFailed(site_id):
                found.failed.add(site_id)
                _site_went(found, old, site_id)
            case DeviceAdded(device):
                found.devices.add(device.id)
            case DeviceRemoved(device_id) | DeviceMoved(device_id, _):
                found.devices.add(device_id)
            case CapacityChanged(site_id, _):
                found.sites.add(site_id)
    for device_id in found.devices:
        _device_link(found, old, new, device_id)
    found.cut.update(_nodes(link) for link in found.links if link in old.links and link not in new.links)
    return found


def _site_went(found: Touched, old: Topology, site: SiteId) -> None:
    found.sites.add(site)
    for neighbour in old.adjacency.get(NodeId(site), ()):
        if DeviceId(neighbour) in old.devices:
            found.devices.add(DeviceId(neighbour))
        else:
            found.links.add(frozenset((site, SiteId(neighbour))))


def _device_link(found: Touched, old: Topology, new: Topology, device: DeviceId) -> None:
    before, after = old.devices.get(device), new.devices.get(device)
    if before is not None and before.site is not None and (after is None or after.site != before.site):
        found.cut.add(frozenset((NodeId(device), NodeId(before.site))))


def _nodes(link: frozenset[SiteId]) -> frozenset[NodeId]:
    return frozenset(NodeId(end) for end in link)
