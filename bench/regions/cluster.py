"""The same rows into a region whose Spark is a standalone cluster of two workers, and into one of `local[2]`.

python -m bench.regions --cluster                        # 2 million rows
python -m bench.regions --cluster --rows 20000000        # writes docs/results/regions-cluster.json

Every push has more rows than a small micro-batch, so that executors work. Both runs have the same data, two cores for
tasks, and 2 GB for Java where tasks run. What both answer is compared; the oracle judges the cluster's.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench._harness import say
from bench.regions.measure import verdict
from godwit.ids import RegionId, SiteId
from godwit.model.topology import Site, Topology
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.testing.spark_cluster import Cluster

SQL = "SELECT k, count(*) AS n, sum(v) AS total, window.end AS until FROM s GROUP BY k, window(ts, '1 minute')"
#: rows of a push (`SizePolicy.small_rows` is 150,000); keys; pushes before it counts; seconds of a push's event times
PUSH, KEYS, WARM, WITHIN = 400_000, 10_000, 2, 20
SEED = 7


def batch(number: int) -> pa.Table:
    rng = np.random.default_rng(SEED + number)
    start = int((dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=WITHIN * number)).timestamp() * 1e6)
    at = start + np.sort(rng.integers(0, WITHIN * 1_000_000, PUSH))
    return pa.table(
        {
            "d": pa.array(["d0"] * PUSH),
            "k": pa.array(rng.integers(0, KEYS, PUSH), pa.int32()),
            "v": pa.array(rng.integers(0, 100, PUSH), pa.int32()),
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )


def compared(rows: int) -> dict[str, Any]:
    """Rows per second of both, whether they answer the same, and the oracle."""
    with tempfile.TemporaryDirectory(prefix="godwit-cluster-") as folder:
        found = {name: _run(Path(folder) / name, name, rows) for name in ("local", "cluster")}
    told = {name: {key: value for key, value in one.items() if key != "results"} for name, one in found.items()}
    equal = found["local"]["results"].equals(found["cluster"]["results"])
    ratio = told["cluster"]["rows_per_s"] / told["local"]["rows_per_s"]
    return {"rows": rows, "seed": SEED, **told, "ratio": round(ratio, 2), "results": "equal" if equal else "different"}


def _run(folder: Path, name: str, rows: int) -> dict[str, Any]:
    with ExitStack() as ending:
        region = RegionSpec("cloud", keep=True, master="local[2]", memory="2g")
        if name == "cluster":
            made = Cluster(folder / "spark")
            ending.callback(made.stop)
            conf = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}
            region = RegionSpec("cloud", keep=True, master=made.url, memory="1g", conf=conf)
        launcher = Launcher(FleetFile(folder / "fleet", (region,), lease=10.0))
        ending.callback(launcher.down)
        launcher.up()
        fleet = ending.enter_context(ConnectedFleet(folder / "fleet", launcher.token()))
        fleet.add_topology(Topology.of([Site(SiteId("here"), RegionId("cloud"), cpu=1000.0, kind="cloud")], []))
        fleet.stream("s", "d string, k int, v int, ts timestamp", device="d")
        fleet.device("d0", site="here", streams=["s"])
        fleet.submit(SQL, "q")
        if name == "cluster":
            _await_executors(fleet)
        for number in range(WARM):
            _push(fleet, number)
        fleet.process_available(300)
        pushes, began = max(rows // PUSH, 1), time.monotonic()
        for number in range(WARM, WARM + pushes):
            _push(fleet, number)
        fleet.process_available(400)
        took = time.monotonic() - began
        fleet.close_sources()
        fleet.process_available(120)
        answered = fleet.results("q").sort_by([("until", "ascending"), ("k", "ascending")]).combine_chunks()
        told: dict[str, Any] = {"rows_per_s": round(pushes * PUSH / took), "seconds": round(took, 1)}
        if name == "cluster":
            told["executors"] = fleet.status()["processes/regions/cloud"]["executors"]
            told["tasks"] = made.tasks()
    say(f"{name}: {told}, {answered.num_rows} results")
    oracle = {"oracle": verdict(str(folder / "fleet"))} if name == "cluster" else {}
    return {**told, **oracle, "answers": answered.num_rows, "results": answered}


def _push(fleet: ConnectedFleet, number: int) -> None:
    fleet.push("s", batch(number), device="d0", sequence=number + 1, timeout=120.0)


def _await_executors(fleet: ConnectedFleet, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while fleet.status()["processes/regions/cloud"].get("executors") != 2:
        if time.monotonic() > until:
            msg = "the cluster's executors have not come"
            raise TimeoutError(msg)
        time.sleep(0.2)
