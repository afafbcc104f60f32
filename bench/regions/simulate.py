"""Hand-overs far past this machine: the control plane as it is, with devices, sites and regions that nobody runs.

python -m bench.regions.simulate [DEVICES [SITES [REGIONS [QUERIES [HOPS [BATCH]]]]]]   # 20,000 10,000 100 100 2,000 50

Every device belongs to one of a hundred queries' streams; devices hop to a neighbouring site in batches (what arrives
in a second), a batch is an epoch, and every region acknowledges at once. What is measured: CPU time of the control
plane per epoch and per hop, bytes of epoch records, messages (an epoch to every region, an answer from each), memory.
A query's devices begin in one region, so its window runs there; the first of them that leaves takes the window to the
cloud, with the routes of all: those epochs are told apart.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from statistics import median
from typing import Any

from godwit.control.control_plane import ControlPlane
from godwit.control.epoch_record import epoch_record
from godwit.control.events import Publish, Revert
from godwit.engine.collector import search_seldom
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.model.changes import DeviceMoved
from godwit.model.plan import Column, Stream
from godwit.model.topology import Device, Link, Site, Topology
from godwit.sql import compile_query

SQL = "SELECT d, count(*) AS n, window.end AS until FROM s{k} GROUP BY d, window(ts, '10 seconds')"


def world(devices: int, sites: int, regions: int, queries: int) -> ControlPlane:
    """A tree: cloud, a hub per region, sites below the hubs, devices at the sites."""
    all_sites = [Site(SiteId("cloud"), RegionId("cloud"), cpu=1e12, kind="cloud")]
    links = []
    for r in range(regions):
        all_sites.append(Site(SiteId(f"hub{r}"), RegionId(f"r{r}"), cpu=1e9))
        links.append(Link(SiteId(f"hub{r}"), SiteId("cloud"), ms=5))
    for s in range(sites):
        all_sites.append(Site(SiteId(f"s{s}"), RegionId(f"r{s % regions}"), cpu=1e9))
        links.append(Link(SiteId(f"s{s}"), SiteId(f"hub{s % regions}"), ms=1))
    there = [Device(DeviceId(f"d{n}"), SiteId(f"s{n % sites}")) for n in range(devices)]
    columns = (Column("d", "string"), Column("ts", "timestamp"))
    streams = {StreamId(f"s{k}"): Stream(StreamId(f"s{k}"), columns, "ts", "d") for k in range(queries)}
    feeds = {s: [DeviceId(f"d{n}") for n in range(k, devices, queries)] for k, s in enumerate(streams)}
    plane = ControlPlane(Topology.of(all_sites, links, there), streams=streams, feeds=feeds)
    for k in range(queries):
        plane.submit(compile_query(SQL.format(k=k), streams, QueryId(f"q{k}")), SiteId("cloud"))
        plane.settle()
    return plane


def simulate(
    devices: int, sites: int, regions: int, queries: int = 100, hops: int = 2_000, batch: int = 50
) -> dict[str, Any]:
    """`hops` hand-overs in epochs of `batch`; half of them to a site of another region."""
    search_seldom()  # as `godwit coordinator` does
    began = time.process_time()
    plane, rng = world(devices, sites, regions, queries), random.Random(1)
    built, at = time.process_time() - began, {n: n % sites for n in range(devices)}
    print(f"the plan of {devices:,} devices stands after {built:.0f} s of CPU", file=sys.stderr, flush=True)
    calm, moved, sizes, epochs = list[float](), list[float](), list[int](), 0
    for _ in range(hops // batch):
        changes = []
        for n in rng.sample(range(devices), batch):
            step = regions if rng.random() < 0.5 else 1  # the next site of the same region, or of the next
            at[n] = (at[n] + step) % sites
            changes.append(DeviceMoved(DeviceId(f"d{n}"), SiteId(f"s{at[n]}")))
        began = time.process_time()
        told = [one for one in plane.change(changes) if isinstance(one, Publish | Revert)]
        records = [json.dumps(epoch_record(one, (), {}, 0)) for one in told]
        plane.settle()
        took = time.process_time() - began
        (moved if any(one.moves for one in told) else calm).append(took)
        sizes += [len(record) for record in records]
        epochs += len(told)
    # (maximum resident size, in kB)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "devices": devices,
        "sites": sites,
        "regions": regions,
        "queries": queries,
        "built_s": built,
        "batch": batch,
        "hop_ms": (sum(calm) + sum(moved)) / hops * 1000,
        "calm_epochs": len(calm),
        "calm_epoch_ms": median(calm or [0.0]) * 1000,
        "calm_hop_ms": sum(calm) / max(len(calm) * batch, 1) * 1000,
        "moving_epochs": len(moved),
        "moving_epoch_ms": median(moved or [0.0]) * 1000,
        "slowest_epoch_ms": max([*calm, *moved]) * 1000,
        "record_bytes_per_hop": sum(sizes) / hops,
        "messages_per_epoch": 2 * (regions + 1),
        "epochs": epochs,
        "memory_mb": memory,
    }


if __name__ == "__main__":
    asked = [int(one) for one in sys.argv[1:]]
    print(json.dumps(simulate(*(asked or (20_000, 10_000, 100))), indent=1))
