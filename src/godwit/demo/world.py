"""The demo's world: trains on the ring, a calm beginning without hand-overs, and what the trains count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import atan2, cos, radians
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from godwit.ids import DeviceId, RegionId, SiteId
from godwit.mobility.hierarchy import Hierarchy, build_topology
from godwit.mobility.payloads import PASSENGERS, Passengers
from godwit.mobility.ring import Ring, make_ring
from godwit.mobility.trace import Trace, TraceEvent, check, ordered, read_trace
from godwit.mobility.twin import MovingWorld, StationStop, play, read_calls
from godwit.model.topology import Link, Site, Topology
from godwit.model.topology_file import load_topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the base stations belong to two operators, each with a network (a region) of its own
NETWORKS = ("net-a", "net-b")
#: of one network: room at every tower for a few trains' share of all queries
GROUND = Hierarchy(regions=1, edge_cpu=400.0, fog_cpu=2_000.0, cloud_cpu=20_000.0)
#: where two lines meet, and more
TRANSFER = ("Ostkreuz", "Südkreuz", "Gesundbrunnen", "Westkreuz")
#: passenger counts arrive at most so long after they were made
DISORDER_MS = 500
#: a hand-over takes so long; the train buffers meanwhile
GAP_MS = 300
SPEEDUP = 30.0


@dataclass(frozen=True)
class Setting:
    """What to play."""

    trains: int = 8
    seconds: int = 40
    #: so long at the beginning no train hops: what latency is without changes
    calm_s: int = 10
    #: the ring's hour in two minutes: hand-overs take place several times per second
    speedup: float = SPEEDUP
    seed: int = 7


@dataclass(frozen=True)
class DemoStage:
    """A trace to play, the ground it is played on, and the stops at which trains count."""

    trace: Trace
    topology: Topology
    calls: tuple[StationStop, ...]
    calm_s: int
    #: the world behind it, where it was made up: for drawing
    world: MovingWorld | None = None

    def lines(self) -> dict[str, str]:
        """train -> its line"""
        known = {call.device: call.line for call in self.calls}
        return {str(d): known.get(d, d.partition("-")[0]) for d in self.topology.devices}

    def travellers(self, count: int) -> list[str]:
        """The trains that change their region most often, the first in the timetable where several do."""
        crossings = dict.fromkeys(sorted(self.topology.devices), 0)
        region = {str(site.id): site.region for site in self.topology.sites.values()}
        for event in self.trace.events:
            if event.kind == "handover" and region[str(event.previous)] != region[str(event.site)]:
                crossings[DeviceId(event.device)] += 1
        return sorted(crossings, key=lambda train: -crossings[train])[:count]  # type: ignore[return-value]

    def payload(self, start_ms: int, seed: int) -> Passengers:
        return Passengers(self.calls, seed=seed, disorder_ms=DISORDER_MS, start_ms=start_ms)


def ring_stage(setting: Setting) -> DemoStage:
    """The synthetic ring; the same seed makes the same stage."""
    world = make_ring(Ring(setting.trains, duration_s=int(setting.seconds * setting.speedup), seed=setting.seed))
    played = play(world, speedup=setting.speedup, shape=GROUND)
    trace = calm_start(played.trace, setting.calm_s * 1000)
    return DemoStage(trace, _at_start(two_networks(played.topology), trace), played.calls, setting.calm_s, world)


def real_stage(spark: SparkSession, data: Path, setting: Setting, out: Path) -> DemoStage:
    """The ring by the real timetable and base stations, through the mobility pipeline on Spark."""
    from godwit.mobility.gtfs import Slot, clock_ms
    from godwit.mobility.pipeline import Request, build

    start = clock_ms("12:10")
    slot = Slot("monday", start, start + int(setting.seconds * setting.speedup * 1000), ("S41", "S42"))
    tracks = data / "track_segments.csv.gz"
    request = Request(
        data / "base_stations_berlin_ring.csv",
        data / "gtfs",
        slot,
        out,
        tracks if tracks.exists() else None,
        min_antennas=6,
        speedup=setting.speedup,
        shape=GROUND,
    )
    build(spark, request)
    trace = calm_start(read_trace(out / "trace.jsonl"), setting.calm_s * 1000)
    topology = _at_start(two_networks(load_topology(out / "topology.yaml")), trace)
    return DemoStage(trace, topology, read_calls(out / "calls.jsonl"), setting.calm_s)


def two_networks(topology: Topology) -> Topology:
    """The same towers as two operators', taking turns around the ring: the next tower is mostly in another region.

    Each network has fog sites of its own; the cloud is common.
    """
    towers = [site for site in topology.sites.values() if site.kind == "edge"]
    at = np.array([(site.lat, site.lon) for site in towers], dtype=np.float64)
    middle = at.mean(axis=0)
    east = cos(radians(middle[0]))
    turn = [atan2(lat - middle[0], (lon - middle[1]) * east) for lat, lon in at]
    order = np.argsort(turn, kind="stable")
    cloud = next(site for site in topology.sites.values() if site.kind == "cloud")
    sites, links = [cloud], []
    for number, network in enumerate(NETWORKS):
        mine = order[number :: len(NETWORKS)]
        part = build_topology([towers[i].id for i in mine], at[mine, 0], at[mine, 1], {}, GROUND)
        name = {site.id: _name_in(network, site) for site in part.sites.values()}
        own = [site for site in part.sites.values() if site.kind != "cloud"]
        sites += [replace(site, id=name[site.id], region=RegionId(network)) for site in own]
        links += [Link(name[link.a], name[link.b], link.mbps, link.ms) for link in part.links.values()]
    return Topology.of(sites, links, list(topology.devices.values()))


def _name_in(network: str, site: Site) -> SiteId:
    return SiteId(f"{site.id}-{network[-1]}") if site.kind == "fog" else site.id


def calm_start(trace: Trace, calm_ms: int) -> Trace:
    """The trace with every train from the start where it is at `calm_ms`, and no moves until then."""
    at: dict[str, str] = {}
    for event in trace.events:
        if event.t <= calm_ms:
            at.pop(event.device, None)
            if event.site is not None:
                at[event.device] = event.site
    first = [TraceEvent(0, device, "attach", site, None) for device, site in at.items()]
    later = [event for event in trace.events if event.t > calm_ms]
    return check(replace(trace, events=ordered([*first, *later])))


def first_counts(stage: DemoStage, wall: float) -> pa.Table:
    """A row for each train at the same station, a little before everything begins."""
    line = stage.lines()
    at = datetime.fromtimestamp(wall, UTC)
    counts = {"coach": 1, "boarded": 9, "alighted": 1, "bikes": 2, "strollers": 1, "station": TRANSFER[0], "ts": at}
    rows = [{"train": d, "line": line[d], **counts} for d in sorted(stage.trace.initial())]
    return pa.Table.from_pylist(rows, schema=PASSENGERS)


def _at_start(topology: Topology, trace: Trace) -> Topology:
    start = trace.initial()
    devices = [replace(d, site=start.get(d.id)) for d in topology.devices.values()]  # type: ignore[arg-type]
    return Topology.of(list(topology.sites.values()), list(topology.links.values()), devices)
