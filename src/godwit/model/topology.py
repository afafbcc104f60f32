"""The ground: sites, devices and the links between them, in regions, as one frozen value with a version.

A change returns a new topology (`changes.py` lists the changes). Inner tables are shared between versions, so a change
costs what it touches, plus one shallow copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from godwit.errors import TopologyError
from godwit.ids import DEFAULT_REGION, DeviceId, NodeId, RegionId, SiteId
from godwit.names import fault

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, slots=True)
class Site:
    """A place that can host operators."""

    id: SiteId
    region: RegionId = DEFAULT_REGION
    #: units of work; an operator's cost is in the same unit
    cpu: float = float("inf")
    nic_in_mbps: float = float("inf")
    nic_out_mbps: float = float("inf")
    #: "edge", "fog" or "cloud": only for people and for drawing
    kind: str = "edge"
    platforms: frozenset[str] = frozenset({"spark"})
    lat: float | None = None
    lon: float | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A mobile or fixed source. It is attached to one site at a time, or to none while it is away."""

    id: DeviceId
    site: SiteId | None = None
    #: what it can compute itself, beside sending its rows; 0: nothing
    cpu: float = 0.0
    #: of its link to whatever site it is attached to
    mbps: float = float("inf")
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A two-way connection between two sites."""

    a: SiteId
    b: SiteId
    mbps: float = float("inf")
    ms: float = 0.0

    @property
    def ends(self) -> frozenset[SiteId]:
        return frozenset((self.a, self.b))


Adjacency = Mapping[NodeId, Mapping[NodeId, Mapping[str, float]]]


@dataclass(frozen=True)
class Topology:
    """Sites, devices and links at one version. Build it with `Topology.of`, change it with `changes.apply`."""

    sites: Mapping[SiteId, Site] = field(default_factory=dict)
    devices: Mapping[DeviceId, Device] = field(default_factory=dict)
    links: Mapping[frozenset[SiteId], Link] = field(default_factory=dict)
    version: int = 0
    #: node -> neighbour -> {"ms": .., "mbps": ..}; derived, kept up to date by `changes.apply`
    adjacency: Adjacency = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(sites: list[Site], links: list[Link] | None = None, devices: list[Device] | None = None) -> Topology:
        """Check the parts against each other and put them together; all faults are reported at once."""
        links, devices = links or [], devices or []
        faults = list(_faults(sites, links, devices))
        if faults:
            msg = "the topology does not hold together:\n  " + "\n  ".join(faults)
            raise TopologyError(msg)
        adjacency: dict[NodeId, dict[NodeId, dict[str, float]]] = {NodeId(site.id): {} for site in sites}
        for link in links:
            attributes = {"ms": link.ms, "mbps": link.mbps}
            adjacency[NodeId(link.a)][NodeId(link.b)] = attributes
            adjacency[NodeId(link.b)][NodeId(link.a)] = attributes
        for device in devices:
            adjacency[NodeId(device.id)] = {}
            if device.site is not None:
                attributes = {"ms": device.ms, "mbps": device.mbps}
                adjacency[NodeId(device.id)][NodeId(device.site)] = attributes
                adjacency[NodeId(device.site)][NodeId(device.id)] = attributes
        return Topology(
            {s.id: s for s in sites}, {d.id: d for d in devices}, {link.ends: link for link in links}, 0, adjacency
        )

    @cached_property
    def regions(self) -> tuple[RegionId, ...]:
        return tuple(sorted({site.region for site in self.sites.values()}))

    def region_of(self, node: NodeId) -> RegionId | None:
        """The region a node's operators run in; a device's is that of the site it is attached to."""
        device = self.devices.get(DeviceId(node))
        site = self.sites.get(device.site if device and device.site else SiteId(node))
        return site.region if site else None

    def has(self, node: NodeId) -> bool:
        return node in self.adjacency

    def neighbours(self, node: NodeId) -> Iterator[NodeId]:
        return iter(self.adjacency.get(node, ()))

    def path(self, a: NodeId, b: NodeId) -> tuple[NodeId, ...] | None:
        """The path of least latency from a to b (ties: fewest hops), or None. Devices only begin or end a path."""
        if a == b:
            return (a,) if self.has(a) else None
        if not (self.has(a) and self.has(b)):
            return None
        import networkx as nx  # (half a second, of which only those pay who look for paths)

        try:
            _, path = nx.bidirectional_dijkstra(self._graph, a, b, weight=self._weight_between(a, b))
        except nx.NetworkXNoPath:
            return None
        return tuple(path)

    def _weight_between(self, a: NodeId, b: NodeId) -> Any:
        devices, ends = self.devices, (a, b)

        def weight(u: NodeId, v: NodeId, attributes: Mapping[str, float]) -> float | None:
            for node in (u, v):
                if DeviceId(node) in devices and node not in ends:
                    return None  # no traffic passes through a device
            return attributes["ms"] + 1e-6

        return weight

    @cached_property
    def _graph(self) -> nx.Graph[NodeId]:
        # networkx reads our adjacency in place: copying 100,000 sites for each change would cost more than the change.
        import networkx as nx

        graph: Any = nx.Graph()
        graph._adj = self.adjacency
        graph._node = _AllNodes(self.adjacency)
        return graph  # type: ignore[no-any-return]


class _AllNodes(Mapping[NodeId, Mapping[str, Any]]):
    """networkx wants a dict of node attributes; ours has none to keep."""

    _none: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, adjacency: Adjacency) -> None:
        self._adjacency = adjacency

    def __getitem__(self, node: NodeId) -> Mapping[str, Any]:
        if node not in self._adjacency:
            raise KeyError(node)
        return self._none

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._adjacency)

    def __len__(self) -> int:
        return len(self._adjacency)


def misnamed(thing: Site | Device) -> Iterator[str]:
    """What is wrong with the names of a site and its region, or of a device."""
    found = [fault("device", thing.id)]
    if isinstance(thing, Site):
        found = [fault("site", thing.id), fault("region", thing.region)]
    return (problem for problem in found if problem is not None)


def _faults(sites: list[Site], links: list[Link], devices: list[Device]) -> Iterator[str]:
    known: set[str] = set()
    things: list[Site | Device] = [*sites, *devices]
    for thing in things:
        what: Literal["site", "device"] = "site" if isinstance(thing, Site) else "device"
        yield from misnamed(thing)
        if thing.id in known:
            yield f"{what} '{thing.id}' is declared twice; give every site and device its own id"
        known.add(thing.id)
        if thing.cpu < 0 or thing.cpu != thing.cpu:
            yield f"{what} '{thing.id}' has cpu {thing.cpu}; it must be 0 or more"
    site_ids = {site.id for site in sites}
    seen: set[frozenset[SiteId]] = set()
    for link in links:
        name = f"link {link.a} - {link.b}"
        if link.a == link.b:
            yield f"{name} connects a site with itself; remove it"
        for end in sorted({link.a, link.b} - site_ids):
            yield f"{name} ends at '{end}', which is not a site; declare it under sites or remove the link"
        if link.ends in seen:
            yield f"{name} is declared twice; links work both ways, keep one"
        seen.add(link.ends)
        if not link.mbps > 0:
            yield f"{name} has {link.mbps} Mbit/s; it must be more than 0"
        if not link.ms >= 0:
            yield f"{name} has a latency of {link.ms} ms; it must be 0 or more"
    for device in devices:
        if device.site is not None and device.site not in site_ids:
            yield f"device '{device.id}' is attached to '{device.site}', which is not a site"
