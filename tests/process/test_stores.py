"""A fleet of processes over servers that keep its logs: killed regions and a killed server lose nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile
from godwit.process.launcher import Launcher
from godwit.process.wire import TOKEN
from tests.process.conftest import REGIONS, two_regions
from tests.process.feed import Feed
from tests.region.world import QUERIES, SCHEMA
from tests.servers import Nats, bucket_url, s3_server

pytestmark = pytest.mark.lane("other")
NAMES = ("tumbling", "join")


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.mark.timeout(600)
def test_over_nats(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    server = ending.enter_context(Nats(tmp_path / "nats"))
    url = f"{server.address}/fleet"
    launcher, fleet, feed = _started(url, tmp_path, ending)
    feed.send(3)
    fleet.migrate("tumbling", keys=["t1"], to="west")

    server.kill()  # -9; rows that are sent meanwhile wait
    server.start()
    feed.send(3)

    _region_dies(launcher, fleet, feed)
    _second_is_refused(launcher)
    launcher.signal("coordinator", signal.SIGKILL)  # with the sink that it serves
    launcher.gone("coordinator")
    launcher.start_coordinator()
    feed.send(2)
    rows = _ends_as_the_oracle_says(launcher, fleet, feed, spark)
    delivered = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(delivered) == rows, "a result is missing in the sink, or there twice"
    assert len(set(delivered)) == rows


@pytest.mark.full
@pytest.mark.timeout(900)
def test_over_nats_with_segments_in_a_folder(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    server = ending.enter_context(Nats(tmp_path / "nats"))
    launcher, fleet, feed = _started(f"{server.address}/fleet?segments=file:{tmp_path / 'files'}", tmp_path, ending)
    feed.send(3)
    _region_dies(launcher, fleet, feed)
    _ends_as_the_oracle_says(launcher, fleet, feed, spark)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_over_s3(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    url = bucket_url(ending.enter_context(s3_server(tmp_path / "s3")), "fleet")
    launcher, fleet, feed = _started(url, tmp_path, ending)
    feed.send(3)
    _region_dies(launcher, fleet, feed)
    _second_is_refused(launcher)
    _ends_as_the_oracle_says(launcher, fleet, feed, spark)


def _started(url: str, folder: Path, ending: ExitStack) -> tuple[Launcher, ConnectedFleet, Feed]:
    sinks = folder / "sinks.yaml"
    sinks.write_text("tumbling: {json_lines: out.jsonl}\n")
    more = ("--sinks", str(sinks))
    launcher = Launcher(FleetFile(url, REGIONS, lease=5.0, run_folder=folder / "run", coordinator=more))
    ending.callback(launcher.down)
    launcher.up()
    fleet = ending.enter_context(ConnectedFleet(url, launcher.token()))
    fleet.add_topology(two_regions())
    fleet.stream("passengers", SCHEMA, device="train", disorder="3 seconds")
    for number in range(3):
        fleet.device(f"t{number}", site=("west", "east")[number % 2], streams=["passengers"])
    for name in NAMES:
        fleet.submit(QUERIES[name], name)
    return launcher, fleet, Feed(fleet)


def _region_dies(launcher: Launcher, fleet: ConnectedFleet, feed: Feed) -> None:
    launcher.signal("edge", signal.SIGKILL)
    launcher.gone("edge")
    fleet.move_device("t0", "east")
    launcher.start_region(REGIONS[0])
    feed.send(3)
    fleet.move_device("t0", "west")
    feed.send(3)
    fleet.process_available()


def _second_is_refused(launcher: Launcher) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "godwit", "region", "--name", "edge", "--store", str(launcher.spec.store)],
        env={**os.environ, TOKEN: launcher.token()}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert "is in use by process" in second.stderr


def _ends_as_the_oracle_says(launcher: Launcher, fleet: ConnectedFleet, feed: Feed, spark: SparkSession) -> int:
    """How many results the windows have."""
    fleet.close_sources()
    fleet.process_available()
    answered = {name: fleet.results(name).num_rows for name in NAMES}
    launcher.down()
    opened = Fleet(str(launcher.spec.store), spark, retention=Retention(keep=True))
    try:
        for name, rows in answered.items():
            verdict = opened.query(name).verdict()
            assert verdict.equal, str(verdict)
            assert verdict.got == rows
        assert answered["tumbling"] > 5
        entries = (opened.store.log(f"regions/{region}/sources/passengers").after(0) for region in ("edge", "cloud"))
        assert sum(sum(record["rows"].values()) for log in entries for _, record in log) == feed.rows
        return answered["tumbling"]
    finally:
        opened.stop()
