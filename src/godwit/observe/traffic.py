"""Bytes over links: what the totals of all regions say was sent, spread along the ways it goes.

A device's rows cross its link to the site it is attached to. What one region sends another is taken to come from the
sites of the devices whose rows were read, in their proportion, and to go the shortest way to the sites where the
receiving operator's instances are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from godwit.ids import DeviceId, NodeId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.topology import Topology
from godwit.observe.rollup import Totals
from godwit.protocol.watermarks import split_source

Key = tuple[RegionId, str]


def traffic(deployment: Deployment, topology: Topology, totals: Mapping[Key, Totals]) -> dict[str, int]:
    """ "a -> b" -> bytes, for every link that something went over."""
    found: dict[str, float] = {}
    for source, size in _by_source(totals).items():
        device = DeviceId(split_source(source)[1])
        site = deployment.devices.get(device)
        if site is not None:
            _add(found, (NodeId(device), NodeId(site)), size)
    for (region, shape), total in totals.items():
        origins = _origins(deployment, region, total)
        for to, size in total.sent.items():
            target_region, _, operator = to.rpartition("/")
            targets = _targets(deployment, shape, int(operator), RegionId(target_region))
            for origin, share in origins.items():
                for target in targets:
                    way = topology.path(origin, target) if topology.has(origin) and topology.has(target) else None
                    _add(found, way or (origin, target), size * share / len(targets))
    return {link: round(size) for link, size in sorted(found.items())}


def _by_source(totals: Mapping[Key, Totals]) -> dict[str, float]:
    """Bytes that each source sent. Several shapes may read the same rows, which were sent once."""
    by_region: dict[tuple[RegionId, str], float] = {}
    for (region, _), total in totals.items():
        for source, size in total.bytes_by_source.items():
            by_region[(region, source)] = max(by_region.get((region, source), 0.0), size)
    found: dict[str, float] = {}
    for (_, source), size in by_region.items():
        found[source] = found.get(source, 0.0) + size
    return found


def _origins(deployment: Deployment, region: RegionId, total: Totals) -> dict[NodeId, float]:
    """Sites of the region that its rows came in at -> their share of the bytes."""
    sizes: dict[NodeId, float] = {}
    for source, size in total.bytes_by_source.items():
        site = deployment.devices.get(DeviceId(split_source(source)[1]))
        if site is not None and deployment.sites.get(site) == region:
            sizes[NodeId(site)] = sizes.get(NodeId(site), 0.0) + size
    whole = sum(sizes.values())
    if whole:
        return {site: size / whole for site, size in sizes.items()}
    return {NodeId(site): 1.0 for site in [s for s, r in deployment.sites.items() if r == region][:1]}


def _targets(deployment: Deployment, shape: str, operator: int, region: RegionId) -> list[NodeId]:
    """Sites of a region where instances of an operator are; without one, any site of the region."""
    placed = (deployment.placement.get(instance_id(q.id, operator)) for q in deployment.of_shape(shape))
    found = sorted({node for node in placed if node is not None and deployment.region_of(node) == region})
    return found or [NodeId(site) for site, r in deployment.sites.items() if r == region][:1]


def _add(found: dict[str, float], way: tuple[NodeId, ...], size: float) -> None:
    for a, b in pairwise(way):
        found[f"{a} -> {b}"] = found.get(f"{a} -> {b}", 0.0) + size
