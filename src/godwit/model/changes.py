"""What can happen to a topology, as small values, and what each does to it.

`apply` is the only way from one topology to the next. A change that does not fit (a second site of one id, a link to
nowhere) is refused with the reason; the topology stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from godwit.errors import TopologyError
from godwit.ids import DeviceId, NodeId, SiteId
from godwit.model.layered import TableBuilder
from godwit.model.topology import Device, Link, Site, Topology, misnamed


@dataclass(frozen=True)
class SiteAdded:
    site: Site


@dataclass(frozen=True)
class SiteRemoved:
    """The site leaves in an orderly way: its state can still be read."""

    site: SiteId


@dataclass(frozen=True)
class SiteFailed:
    """The site is gone with everything on it."""

    site: SiteId


@dataclass(frozen=True)
class LinkAdded:
    link: Link


@dataclass(frozen=True)
class LinkRemoved:
    a: SiteId
    b: SiteId


@dataclass(frozen=True)
class DeviceAdded:
    device: Device


@dataclass(frozen=True)
class DeviceRemoved:
    """The device is gone for good: its clock no longer holds windows open."""

    device: DeviceId


@dataclass(frozen=True)
class DeviceMoved:
    """The device is now attached to `site`, or to none while it is away."""

    device: DeviceId
    site: SiteId | None


@dataclass(frozen=True)
class CapacityChanged:
    site: SiteId
    cpu: float


Change = (
    SiteAdded
    | SiteRemoved
    | SiteFailed
    | LinkAdded
    | LinkRemoved
    | DeviceAdded
    | DeviceRemoved
    | DeviceMoved
    | CapacityChanged
)


def apply(topology: Topology, changes: Iterable[Change]) -> Topology:
    """The topology after all the changes, one version up; TopologyError names the change that does not fit."""
    edit = _Edit(topology)
    for change in changes:
        edit.take(change)
    return edit.result()


class _Edit:
    """A topology being changed. Outer and inner tables are copied only where they are touched."""

    def __init__(self, topology: Topology) -> None:
        self._version = topology.version
        self._sites = TableBuilder(topology.sites)
        self._devices = TableBuilder(topology.devices)
        self._links = TableBuilder(topology.links)
        self._adjacency = TableBuilder(topology.adjacency)

    def result(self) -> Topology:
        tables = (self._sites.frozen(), self._devices.frozen(), self._links.frozen())
        return Topology(*tables, self._version + 1, self._adjacency.frozen())

    def take(self, change: Change) -> None:
        match change:
            case SiteAdded(site):
                self._must_be_named(site, change)
                self._must(
                    site.id not in self._sites and NodeId(site.id) not in self._adjacency, change, "already there"
                )
                self._sites[site.id] = site
                self._adjacency[NodeId(site.id)] = {}
            case SiteRemoved(site_id) | SiteFailed(site_id):
                self._must(site_id in self._sites, change, "there is no such site")
                self._drop_site(site_id)
            case LinkAdded(link):
                self._must(link.a != link.b, change, "a link needs two ends")
                self._must(link.a in self._sites and link.b in self._sites, change, "both ends must be sites")
                self._links[link.ends] = link
                self._connect(NodeId(link.a), NodeId(link.b), link.ms, link.mbps)
            case LinkRemoved(a, b):
                self._must(frozenset((a, b)) in self._links, change, "there is no such link")
                del self._links[frozenset((a, b))]
                self._disconnect(NodeId(a), NodeId(b))
            case DeviceAdded(device):
                self._must_be_named(device, change)
                self._must(NodeId(device.id) not in self._adjacency, change, "already there")
                self._adjacency[NodeId(device.id)] = {}
                self._devices[device.id] = replace(device, site=None)
                self._attach(device.id, device.site, change)
            case DeviceRemoved(device_id):
                self._must(device_id in self._devices, change, "there is no such device")
                self._attach(device_id, None, change)
                del self._devices[device_id]
                del self._adjacency[NodeId(device_id)]
            case DeviceMoved(device_id, to):
                self._must(device_id in self._devices, change, "there is no such device; add it first")
                self._attach(device_id, to, change)
            case CapacityChanged(site_id, cpu):
                self._must(site_id in self._sites, change, "there is no such site")
                self._must(cpu >= 0, change, "capacity must be 0 or more")
                self._sites[site_id] = replace(self._sites[site_id], cpu=cpu)

    @staticmethod
    def _must(holds: bool, change: Change, why: str) -> None:
        if not holds:
            about = next(iter(vars(change).values()))
            msg = f"cannot apply {type(change).__name__}({getattr(about, 'id', about)}): {why}"
            raise TopologyError(msg)

    def _must_be_named(self, thing: Site | Device, change: Change) -> None:
        for problem in misnamed(thing):
            self._must(False, change, problem)

    def _drop_site(self, site: SiteId) -> None:
        for neighbour in list(self._adjacency[NodeId(site)]):
            device = self._devices.get(DeviceId(neighbour))
            if device is not None:
                self._devices[device.id] = replace(device, site=None)
            else:
                del self._links[frozenset((site, SiteId(neighbour)))]
            self._disconnect(NodeId(site), neighbour)
        del self._sites[site]
        del self._adjacency[NodeId(site)]

    def _attach(self, device_id: DeviceId, to: SiteId | None, change: Change) -> None:
        self._must(to is None or to in self._sites, change, f"'{to}' is not a site; add it first")
        device = self._devices[device_id]
        if device.site is not None:
            self._disconnect(NodeId(device_id), NodeId(device.site))
        if to is not None:
            self._connect(NodeId(device_id), NodeId(to), device.ms, device.mbps)
        self._devices[device_id] = replace(device, site=to)

    def _connect(self, a: NodeId, b: NodeId, ms: float, mbps: float) -> None:
        attributes = {"ms": ms, "mbps": mbps}
        self._adjacency[a] = {**self._adjacency[a], b: attributes}
        self._adjacency[b] = {**self._adjacency[b], a: attributes}

    def _disconnect(self, a: NodeId, b: NodeId) -> None:
        self._adjacency[a] = {n: v for n, v in self._adjacency[a].items() if n != b}
        self._adjacency[b] = {n: v for n, v in self._adjacency[b].items() if n != a}
