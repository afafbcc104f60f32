"""Commit records: 2,000 devices in one stream, one of them hops between two regions; size and writing time.

A query over all devices makes every watermark part of the record; a query over the hopping device alone makes an
operator with state change its region at every hop. What a hop adds for good, times 86,400, is the growth per day.

Numbers (epochs, commits, times) get longer while a short run counts to 10 and to 100. Extrapolated to a day that looks
like growth, and is none: growth is measured with every number written as one digit.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.model.topology import Device, Link, Site, Topology
from godwit.storage.log import Log

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "device string, v int, ts timestamp"
SQL = "SELECT count(*) AS n, window.end AS until FROM readings {} GROUP BY window(ts, '10 seconds')"
HOPPER = "d0"
DAY = 86_400


def commit_record(spark: SparkSession, folder: Path, devices: int = 2000, hops: int = 100) -> dict[str, Any]:
    """Sizes (bytes) and writing times (ms) of the commit records of `hops` hops, one per simulated second."""
    fleet = _world(Fleet(folder, spark), devices)
    largest: list[int] = []
    shapes: list[int] = []
    with _timed_appends() as seconds:
        for hop in range(hops):
            _hop(fleet, hop)
            newest = _newest(fleet)
            largest.append(max(newest))
            shapes.append(_without_digits(fleet))
    fleet.stop()
    slope = _slope(shapes[hops // 4 :])
    return {
        "devices": devices,
        "hops": hops,
        "largest_bytes": max(largest),
        "median_bytes": int(statistics.median(largest)),
        "growth_bytes_per_hop": round(slope, 1),
        "growth_bytes_per_day": round(slope * DAY),
        "write_median_ms": round(statistics.median(seconds) * 1000, 3),
        "write_p95_ms": round(sorted(seconds)[int(0.95 * len(seconds))] * 1000, 3),
    }


def _world(fleet: Fleet, devices: int) -> Fleet:
    names = [f"d{k}" for k in range(devices)]
    sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "cloud", cpu=1000.0, kind="cloud")]  # type: ignore[arg-type]
    links = [Link("west", "cloud", ms=5), Link("east", "cloud", ms=5)]  # type: ignore[arg-type]
    attached = [Device(name, ("west", "east")[k % 2]) for k, name in enumerate(names)]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, links, attached))
    fleet.stream("readings", SCHEMA, device="device")
    for name in names:
        fleet.device(name, streams=["readings"])
    fleet.submit(SQL.format("WHERE v >= 0"), "all")
    fleet.submit(SQL.format(f"WHERE device = '{HOPPER}' AND v >= 0"), "one")
    fleet.process_available()
    rows = [{"device": name, "v": 1, "ts": START} for name in names]
    fleet.push("readings", rows)
    fleet.process_available()
    return fleet


def _hop(fleet: Fleet, hop: int) -> None:
    hopper = fleet.device(HOPPER)
    hopper.attach(("east", "west")[hop % 2])
    hopper.push([{"device": HOPPER, "v": hop, "ts": START + dt.timedelta(seconds=hop)}])
    fleet.process_available()


def _newest(fleet: Fleet) -> list[int]:
    """Bytes of the newest commit record of every runner, with the rows that travel in it."""
    logs = (runner.commits for runner in fleet.pool.runners.values())
    return [fleet.store.record_bytes(log.name, log.last) for log in logs if log.last]


def _without_digits(fleet: Fleet) -> int:
    """Characters of the newest commit records of all runners together, with one digit per number."""
    logs = [runner.commits for runner in fleet.pool.runners.values()]
    records = [json.dumps(log.read(log.last), default=str) for log in logs if log.last]
    return sum(len(re.sub(r"\d+", "0", record)) for record in records)


@contextmanager
def _timed_appends() -> Iterator[list[float]]:
    """Seconds of every append to a commit log."""
    seconds: list[float] = []
    original = Log.append

    def append(self: Log, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(self, *args, **kwargs)
        finally:
            if self.name.endswith("/commits"):
                seconds.append(time.perf_counter() - began)

    Log.append = append  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        Log.append = original  # type: ignore[method-assign]


def _slope(values: list[int]) -> float:
    """What one step adds: the median slope of all pairs (Theil and Sen). A record that has the memory whole, now and
    then, is large and would bend least squares either way."""
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median([(b - a) / (j - i) for (i, a), (j, b) in pairs] or [0.0])
