"""The same rows through the same query: regions as threads of one process, and as processes of their own.

A row enters in the region `edge` and its result is committed in `cloud`. Its event time is when it was sent, so latency
is the commit's time minus it: the clocks are those of one machine.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from godwit.model.topology import Link, Site, Topology
from godwit.storage import names
from godwit.storage.segment import Segment
from godwit.storage.store import Store

SCHEMA = "device string, n int, ts timestamp"
SQL = "SELECT device, n, ts FROM rows WHERE n >= 0"
WARM, ROWS, EVERY = 60, 200, 0.05
Push = Callable[[list[dict[str, Any]]], object]


def topology() -> Topology:
    sites = [Site("edge", "edge"), Site("cloud", "cloud", cpu=1000.0, kind="cloud")]
    return Topology.of(sites, [Link("edge", "cloud", ms=1)])  # type: ignore[arg-type]


def embedded(folder: Path) -> dict[str, float]:
    from godwit.api.fleet import Fleet
    from godwit.engine.session import spark_session

    with Fleet(folder, spark_session(memory="512m")) as fleet:
        fleet.topology.add(topology())
        fleet.stream("rows", SCHEMA, device="device")
        handle = fleet.device("d", site="edge", streams=["rows"])
        fleet.submit(SQL, "q", sink="cloud")
        fleet.start()
        return measured(*send(handle.push, folder))


def processes(folder: Path) -> dict[str, float]:
    from godwit.process.connect import ConnectedFleet
    from godwit.process.fleet_file import FleetFile, RegionSpec
    from godwit.process.launcher import Launcher

    launcher, began = Launcher(FleetFile(folder, (RegionSpec("edge"), RegionSpec("cloud")))), time.monotonic()
    try:
        launcher.up()
        started = time.monotonic() - began
        with ConnectedFleet(folder, launcher.token()) as fleet:
            fleet.add_topology(topology())
            fleet.stream("rows", SCHEMA, device="device")
            fleet.device("d", site="edge", streams=["rows"])
            fleet.submit(SQL, "q", sink="cloud")
            told = send(lambda rows: fleet.push("rows", rows, device="d"), folder)
        memory = max(one.megabytes for one in launcher.running() if one.name != "coordinator")
    finally:
        launcher.down()
    return {**measured(*told), "start_s": started, "memory_mb": memory}


def send(push: Push, folder: Path) -> tuple[float, dict[int, tuple[float, float]]]:
    """Rows at a pace; the first ones let Spark compile. Returns when those began that count, and what came of all.

    Commits are looked at as they come: older ones are merged, and a merged result does not say when it was committed.
    """
    began, seen = 0.0, dict[int, tuple[float, float]]()
    for n in range(WARM + ROWS):
        if n == WARM:
            began = time.time()
        push([{"device": "d", "n": n, "ts": dt.datetime.now(dt.UTC)}])
        time.sleep(EVERY)
        if n % 20 == 0:
            seen |= found(folder)
    until = time.monotonic() + 60
    while len(seen) < WARM + ROWS and time.monotonic() < until:
        time.sleep(0.1)
        seen |= found(folder)
    return began, seen


def found(folder: Path) -> dict[int, tuple[float, float]]:
    """n -> (when it was sent, when its result was committed), seconds."""
    store, told = Store.local(folder), {}
    for key in names.shapes(store.disk):
        for _, record in store.log(names.commit_log(*key)).after(0):
            for segment in record["results"]:
                for table in Segment.from_json(segment, store).tables(keep=False):
                    for row in table.to_pylist():
                        told[row["n"]] = (row["ts"].timestamp(), record["metrics"]["wall"])
    return told


def measured(since: float, rows: dict[int, tuple[float, float]]) -> dict[str, float]:
    assert sorted(rows) == list(range(WARM + ROWS)), f"{len(rows)} of {WARM + ROWS} rows have a result"
    took = [(done - sent) * 1000 for sent, done in rows.values() if sent >= since]
    return {"p50_ms": median(took), "p95_ms": quantiles(took, n=20)[18]}


def both() -> tuple[dict[str, float], dict[str, float]]:
    """(embedded, processes), one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        first = embedded(Path(folder) / "embedded")
        return first, processes(Path(folder) / "processes")
