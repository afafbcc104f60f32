"""Small topologies. Every site is a region of its own unless `region_of` says otherwise.

line(3)    s0 - s1 - s2                       the last site is the one nearest to the sink
star(3)    s0, s1, s2 around `hub`
ring(4)    s0 - s1 - s2 - s3 - s0
tree(2, 2) root - (n1, n2), n1 - (n1.1, n1.2), n2 - (n2.1, n2.2)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

from godwit.ids import DeviceId, RegionId, SiteId
from godwit.model.topology import Device, Link, Site, Topology

RegionOf = Callable[[str], str]


def line(length: int, *, region_of: RegionOf = str, cpu: float = 100.0, ms: float = 1.0) -> Topology:
    """Sites in a row."""
    names = [f"s{k}" for k in range(length)]
    return build(names, itertools.pairwise(names), region_of=region_of, cpu=cpu, ms=ms)


def star(leaves: int, *, region_of: RegionOf = str, cpu: float = 100.0, ms: float = 1.0) -> Topology:
    """Leaves around one hub."""
    names = [f"s{k}" for k in range(leaves)]
    return build(["hub", *names], ((name, "hub") for name in names), region_of=region_of, cpu=cpu, ms=ms)


def ring(length: int, *, region_of: RegionOf = str, cpu: float = 100.0, ms: float = 1.0) -> Topology:
    """Sites in a circle: every site is reached on two ways."""
    names = [f"s{k}" for k in range(length)]
    return build(names, zip(names, [*names[1:], names[0]], strict=True), region_of=region_of, cpu=cpu, ms=ms)


def tree(
    fan_out: int, depth: int, *, region_of: RegionOf | None = None, cpu: float = 100.0, ms: float = 1.0
) -> Topology:
    """A full tree below `root`; by default every child of the root is a region with all that is below it."""
    names, links, level = ["root"], [], ["root"]
    for _ in range(depth):
        below = []
        for parent in level:
            children = [_child(parent, k) for k in range(1, fan_out + 1)]
            links += [(child, parent) for child in children]
            below += children
        names += below
        level = below
    return build(names, links, region_of=region_of or (lambda name: name.partition(".")[0]), cpu=cpu, ms=ms)


def levels(sites: int, fan_out: int, regions: int = 3) -> tuple[Topology, list[SiteId]]:
    """`cloud` and below it levels that are each `fan_out` times the one above, until there are that many sites.

    For experiments with many sites; also returns the lowest level, to which devices attach.
    """
    names, links, level = [Site(SiteId("cloud"), RegionId("cloud"), kind="cloud")], [], [SiteId("cloud")]
    while True:
        below = []
        for k in range(min(len(level) * fan_out, sites - len(names))):
            name = SiteId(f"s{len(names)}")
            names.append(Site(name, RegionId(f"region-{(len(names) + 1) % regions}")))
            links.append(Link(level[k % len(level)], name, ms=1.0))
            below.append(name)
        if len(names) >= sites:
            return Topology.of(names, links), below or level
        level = below


def build(
    names: Iterable[str],
    links: Iterable[tuple[str, str]],
    *,
    region_of: RegionOf = str,
    cpu: float | Mapping[str, float] = 100.0,
    ms: float = 1.0,
    devices: Mapping[str, str | None] | None = None,
) -> Topology:
    """A topology from names: sites, pairs that are linked, device -> site."""
    sites = [
        Site(SiteId(name), RegionId(region_of(name)), cpu[name] if isinstance(cpu, Mapping) else cpu) for name in names
    ]
    attached = [Device(DeviceId(d), None if s is None else SiteId(s)) for d, s in (devices or {}).items()]
    return Topology.of(sites, [Link(SiteId(a), SiteId(b), ms=ms) for a, b in links], attached)


def _child(parent: str, number: int) -> str:
    return f"n{number}" if parent == "root" else f"{parent}.{number}"
