"""Leftovers: what stays behind of queries that were withdrawn and of devices that left, per cycle.

One cycle submits a query and withdraws it; a device joins, sends a row and is removed. After `WARM` cycles (caches that
have a bound are full, as many commits are kept as ever will be) every measure should be flat: the slope per cycle from
then on is the figure. What it is before is in the samples.

Logs go chunk by chunk: a folder has up to two chunks per log more than is needed, 1 MB each, which a run of minutes
never fills. So that it is seen whether they go, chunks are small here (`CHUNK_BYTES`); with 1 MB the bound is as much
higher.
"""

from __future__ import annotations

import datetime as dt
import gc
import statistics
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.ids import DeviceId
from godwit.maintenance.housekeeping import Retention
from godwit.model.changes import DeviceRemoved
from godwit.model.topology import Link, Site, Topology
from godwit.storage import chunk
from godwit.storage.names import HISTORY

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SQL = "SELECT count(*) AS n, window.end AS until FROM readings WHERE v > {} GROUP BY window(ts, '10 seconds')"
#: of a log's chunk, in this bench
CHUNK_BYTES = 16_000
#: cycles between two rounds of micro-batches
WORK_EVERY = 5
#: after so many cycles all that is bounded by a number (queries that ended, kept commits, chunks) has reached it
WARM = 110
#: what is sampled, with the growth per cycle that is still called flat
FLAT = {"rss_kb": 4.0, "files": 0.05, "folder_bytes": 100.0, "record_bytes": 1.0}


def leftovers(spark: SparkSession, folder: Path, cycles: int = 500, every: int = 20) -> dict[str, Any]:
    """Samples every `every` cycles, and the slope per cycle of each measure once the fleet is warm."""
    usual, chunk.CHUNK_BYTES = chunk.CHUNK_BYTES, CHUNK_BYTES
    try:
        return _leftovers(spark, folder, cycles, every)
    finally:
        chunk.CHUNK_BYTES = usual


def _leftovers(spark: SparkSession, folder: Path, cycles: int, every: int) -> dict[str, Any]:
    fleet = Fleet(folder, spark, retention=Retention(source_seconds=0.0, result_seconds=0.0, every=1))
    sites = [Site("edge", "edge"), Site("cloud", "cloud", cpu=1000.0, kind="cloud")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, [Link("edge", "cloud", ms=5)]))  # type: ignore[arg-type]
    fleet.stream("readings", "device string, v int, ts timestamp", device="device")
    stays = fleet.device("stays", site="edge", streams=["readings"])
    fleet.submit(SQL.format(-1), "stays")
    samples = []
    for cycle in range(cycles):
        now = START + dt.timedelta(seconds=cycle)
        fleet.submit(SQL.format(cycle), f"q{cycle}")
        guest = fleet.device(f"g{cycle}", site="edge", streams=["readings"])
        guest.push([{"device": guest.id, "v": cycle, "ts": now}])
        stays.push([{"device": "stays", "v": cycle, "ts": now}])
        fleet.query(f"q{cycle}").stop()
        guest.close()
        fleet.change([DeviceRemoved(DeviceId(guest.id))])
        if (cycle + 1) % WORK_EVERY == 0:
            fleet.process_available()
        if (cycle + 1) % every == 0:
            _settle(fleet, folder)
            samples.append({"cycle": cycle + 1, **_sample(folder)})
    fleet.stop()
    since = WARM if cycles > WARM else cycles // 2
    kept = [sample for sample in samples if sample["cycle"] >= since]
    slopes = {name: round(_slope(kept, name), 3) for name in FLAT}
    return {
        "cycles": cycles,
        "chunk_bytes": CHUNK_BYTES,
        "limits": FLAT,
        "slopes_per_cycle": slopes,
        "flat": all(slopes[name] <= limit for name, limit in FLAT.items()),
        "samples": samples,
    }


def _settle(fleet: Fleet, folder: Path, rounds: int = 40) -> None:
    """Process everything, and give housekeeping the time it needs: it works in slices, and removes some files late."""
    before = -1
    for _ in range(rounds):
        fleet.process_available()
        now = sum(1 for _ in folder.rglob("*"))
        if now == before:
            return
        before = now


def _sample(folder: Path) -> dict[str, int]:
    gc.collect()
    # (the history is left out: it is cut at a number of lines, which takes longer to reach than a short run lasts)
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != HISTORY]
    records = [file for file in files if file.parent.name == "commits"]
    newest = max(records, key=lambda file: file.stat().st_mtime_ns, default=None)
    return {
        "rss_kb": psutil.Process().memory_info().rss // 1024,
        "files": len(files),
        "folder_bytes": sum(file.stat().st_size for file in files),
        "record_bytes": 0 if newest is None else newest.stat().st_size,
    }


def _slope(samples: list[dict[str, int]], name: str) -> float:
    if len(samples) < 2:
        return 0.0
    return statistics.linear_regression([s["cycle"] for s in samples], [s[name] for s in samples]).slope
