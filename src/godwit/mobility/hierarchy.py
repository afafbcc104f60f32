"""From serving towers to a topology: edge sites, fog sites by clustering, one cloud; regions from west to east.

    cloud
    ├── fog-01 ── the towers near it      region edge-west
    └── fog-02 ── the towers near it      region edge-east

A link's latency is a millisecond of switching plus the light's way through fibre that takes half as long again as the
straight line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from godwit.errors import ConfigError, DataError
from godwit.ids import DeviceId, RegionId, SiteId
from godwit.mobility.geo import Floats, Ints, metres, to_xyz
from godwit.model.topology import Device, Link, Site, Topology

_FIBRE_MS_PER_M = 1.5 / 200_000_000 * 1000
_MANY = 20_000  # points from which on k-means works on samples


@dataclass(frozen=True)
class Hierarchy:
    """How many levels' worth of machines stand where."""

    #: edge regions, beside the cloud's own
    regions: int = 2
    towers_per_fog: int = 12
    max_fog: int = 256
    edge_cpu: float = 4.0
    fog_cpu: float = 16.0
    cloud_cpu: float = 128.0
    edge_mbps: float = 1_000.0
    fog_mbps: float = 10_000.0
    seed: int = 0


def build_topology(
    ids: Sequence[str],
    lat: Floats,
    lon: Floats,
    devices: Mapping[str, str | None],
    shape: Hierarchy | None = None,
) -> Topology:
    """The topology over these towers, with each device where it is at the start."""
    shape = shape or Hierarchy()
    if shape.regions < 1 or shape.towers_per_fog < 1:
        msg = f"a hierarchy needs a region and a tower per fog site, not {shape.regions} and {shape.towers_per_fog}"
        raise ConfigError(msg)
    if not len(ids):
        msg = "no tower serves any device, so there is no topology; check that towers and routes lie in one area"
        raise DataError(msg)
    fog_of, fog_lat, fog_lon = _fog(lat, lon, shape)
    region_of = _regions(fog_of, len(fog_lat), shape.regions)
    return _assemble(ids, (lat, lon), (fog_of, fog_lat, fog_lon), region_of, devices, shape)


def _fog(lat: Floats, lon: Floats, shape: Hierarchy) -> tuple[Ints, Floats, Floats]:
    """Cluster towers; fog sites are numbered from west to east."""
    count = min(max(round(len(lat) / shape.towers_per_fog), shape.regions), shape.max_fog, _distinct(lat, lon))
    model = MiniBatchKMeans if len(lat) > _MANY else KMeans
    label = model(n_clusters=count, n_init=1, random_state=shape.seed).fit_predict(to_xyz(lat, lon))
    size = np.bincount(label, minlength=count)
    used = np.flatnonzero(size)
    centre = [np.bincount(label, weights=x, minlength=count)[used] / size[used] for x in (lat, lon)]
    west_first = np.argsort(centre[1], kind="stable")
    rank = np.full(count, -1, dtype=np.int64)
    rank[used[west_first]] = np.arange(len(used))
    return rank[label], centre[0][west_first], centre[1][west_first]


def _distinct(lat: Floats, lon: Floats) -> int:
    return len(np.unique(np.column_stack((lat, lon)), axis=0))


def _regions(fog_of: Ints, fogs: int, regions: int) -> Ints:
    """Cut the fog sites from west to east, so that every region has about as many towers."""
    towers = np.bincount(fog_of, minlength=fogs)
    middle = np.cumsum(towers) - towers / 2
    share: Ints = (middle * regions / towers.sum()).astype(np.int64)
    return np.asarray(np.minimum(share, regions - 1))


def _region_name(region: int, regions: int) -> RegionId:
    names = {1: ("edge",), 2: ("edge-west", "edge-east"), 3: ("edge-west", "edge-mid", "edge-east")}.get(regions)
    return RegionId(names[region] if names else f"edge-{region + 1}")


def _assemble(
    ids: Sequence[str],
    place: tuple[Floats, Floats],
    fog: tuple[Ints, Floats, Floats],
    region_of: Ints,
    devices: Mapping[str, str | None],
    shape: Hierarchy,
) -> Topology:
    (lat, lon), (fog_of, fog_lat, fog_lon) = place, fog
    name = [SiteId(f"fog-{i + 1:02d}") for i in range(len(fog_lat))]
    region = [_region_name(int(r), shape.regions) for r in region_of]
    top = _site("cloud", RegionId("cloud"), shape.cloud_cpu, "cloud", fog_lat.mean(), fog_lon.mean())
    fogs = [_site(name[i], region[i], shape.fog_cpu, "fog", fog_lat[i], fog_lon[i]) for i in range(len(name))]
    edges = [_site(tower, region[fog_of[i]], shape.edge_cpu, "edge", lat[i], lon[i]) for i, tower in enumerate(ids)]
    up_ms = 1 + metres(lat, lon, fog_lat[fog_of], fog_lon[fog_of]) * _FIBRE_MS_PER_M
    top_at = (np.full(len(fogs), top.lat or 0.0), np.full(len(fogs), top.lon or 0.0))
    cloud_ms = 5 + metres(fog_lat, fog_lon, *top_at) * _FIBRE_MS_PER_M
    links = [Link(f.id, top.id, shape.fog_mbps, round(float(ms), 3)) for f, ms in zip(fogs, cloud_ms, strict=True)]
    links += [
        Link(edge.id, name[fog_of[i]], shape.edge_mbps, round(float(up_ms[i]), 3)) for i, edge in enumerate(edges)
    ]
    there = [Device(DeviceId(d), None if site is None else SiteId(site)) for d, site in devices.items()]
    return Topology.of([top, *fogs, *edges], links, there)


def _site(name: str, region: RegionId, cpu: float, kind: str, lat: float, lon: float) -> Site:
    return Site(SiteId(name), region, cpu, kind=kind, lat=round(float(lat), 7), lon=round(float(lon), 7))


def write_topology(topology: Topology, path: Path) -> None:
    """Write topology.yaml, for `model.topology_file.load_topology` to read.

    One JSON mapping a line is YAML, too, and a hundred times quicker to write than what a YAML library makes of the
    half million sites of a country.
    """
    with path.open("w", encoding="utf-8") as out:
        out.write(f"regions: {json.dumps(list(topology.regions))}\n")
        _section(out, "sites", (_fields(site) for site in topology.sites.values()))
        links = ({"from": k.a, "to": k.b, "mbps": k.mbps, "ms": k.ms} for k in topology.links.values())
        _section(out, "links", links)
        _section(out, "devices", ({"id": d.id, "site": d.site} for d in topology.devices.values()))


def _fields(site: Site) -> dict[str, Any]:
    return {"id": site.id, "region": site.region, "cpu": site.cpu, "kind": site.kind, "lat": site.lat, "lon": site.lon}


def _section(out: TextIO, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Line by line: a country's would be hundreds of megabytes at once."""
    empty = True
    for row in rows:
        out.write(f"{name}:\n" if empty else "")
        out.write(f"  - {json.dumps(row, ensure_ascii=False)}\n")
        empty = False
    if empty:
        out.write(f"{name}: []\n")
