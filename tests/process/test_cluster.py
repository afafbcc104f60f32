"""A region whose large micro-batches run on the executors of a standalone cluster; executors and workers are killed."""

from __future__ import annotations

import datetime as dt
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.testing.spark_cluster import Cluster
from tests.servers import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
SQL = "SELECT k, count(*) AS n, sum(v) AS total, window.end AS until FROM s GROUP BY k, window(ts, '1 minute')"
ROWS = 200_000  # more than a small micro-batch has (`SizePolicy.small_rows`)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.stop()


def test_large_micro_batches_run_on_executors_and_killed_ones_lose_nothing(
    cluster: Cluster, tmp_path: Path, spark: SparkSession
) -> None:
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    region = RegionSpec("cloud", master=cluster.url, keep=True, quick=True, conf=conf)
    launcher = Launcher(FleetFile(tmp_path / "fleet", (region,), lease=10.0))
    try:
        launcher.up()
        with ConnectedFleet(tmp_path / "fleet", launcher.token()) as fleet:
            fleet.add_topology(Topology.of([Site("here", "cloud", cpu=1000.0, kind="cloud")], []))  # type: ignore[arg-type]
            fleet.stream("s", "d string, k int, v int, ts timestamp", device="d")
            fleet.device("d0", site="here", streams=["s"])
            fleet.submit(SQL, "q")
            told = fleet.status()["processes/regions/cloud"]
            assert until(lambda: len(cluster.executors()) == 2, 60), told

            _send(fleet, 1, rows=100)  # (Spark is asked once, by a job, whether direct plans give what it gives)
            fleet.process_available()
            before = cluster.tasks()
            _send(fleet, 2, rows=100)
            fleet.process_available()
            assert cluster.tasks() == before, "few rows went to executors"
            _send(fleet, 3)
            fleet.process_available()
            assert cluster.tasks() > before
            assert fleet.status()["processes/regions/cloud"]["executors"] == 2

            cluster.executors()[0].send_signal(signal.SIGKILL)
            _send(fleet, 4)
            fleet.process_available()
            cluster.workers[0].kill()
            for child in cluster.executors()[:1]:
                child.send_signal(signal.SIGKILL)
            _send(fleet, 5)
            fleet.process_available()

            fleet.close_sources()
            fleet.process_available()
    finally:
        launcher.down()
    opened = Fleet(tmp_path / "fleet", spark, retention=Retention(keep=True))
    try:
        verdict = opened.query("q").verdict()
        assert verdict.equal, str(verdict)
        assert verdict.got > 100
    finally:
        opened.stop()


def _send(fleet: ConnectedFleet, number: int, rows: int = ROWS) -> None:
    rng = np.random.default_rng(number)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number)
    at = np.sort(rng.integers(0, 50_000_000, rows)) + int(start.timestamp() * 1e6)
    table = pa.table(
        {
            "d": pa.array(["d0"] * rows),
            "k": pa.array(rng.integers(0, 50, rows), pa.int32()),
            "v": pa.array(rng.integers(0, 100, rows), pa.int32()),
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )
    assert fleet.push("s", table, device="d0", sequence=number, timeout=120.0)
