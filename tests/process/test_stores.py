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
from godwit.ids import QueryId, RegionId
from godwit.maintenance.housekeeping import Retention
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile
from godwit.process.launcher import Launcher
from godwit.process.wire import TOKEN
from tests.process.conftest import REGIONS, two_regions
from tests.process.feed import Feed
from tests.region.world import QUERIES, SCHEMA
from tests.servers import Nats, bucket_url, kafka, s3_server

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

    _region_dies(launcher, fleet, feed, with_coordinator=True)  # and with the sink that it serves
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
def test_over_kafka(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    address = ending.enter_context(kafka(tmp_path / "kafka"))
    url = f"kafka://{address}/fleet?segments=file:{tmp_path / 'files'}"
    launcher, fleet, feed = _started(url, tmp_path, ending)
    feed.send(3)
    _region_dies(launcher, fleet, feed, with_coordinator=True)
    _second_is_refused(launcher)
    _ends_as_the_oracle_says(launcher, fleet, feed, spark)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_region_that_is_gone_for_good_is_forgotten(tmp_path: Path, ending: ExitStack, spark: SparkSession) -> None:
    """Over NATS, by the command line."""
    url = f"{ending.enter_context(Nats(tmp_path / 'nats')).address}/fleet"
    launcher, fleet, feed = _started(url, tmp_path, ending)
    feed.send(3)
    fleet.process_available()
    assert '"tumbling"' in _godwit(launcher, "status", url, "-o", "json")
    forget = ("forget-region", "--store", url)
    assert "runs (process" in _godwit(launcher, *forget, "edge", fails=True)
    assert "no process was ever region 'north'" in _godwit(launcher, *forget, "north", fails=True)
    plan = fleet.deployment.queries[QueryId("tumbling")].shape.plan  # it goes there, with the state of all trains
    fleet.place({f"tumbling/{i}": "west" for i in range(len(plan.operators)) if not plan.is_local(i)})
    feed.send(3)
    launcher.signal("edge", signal.SIGKILL)
    launcher.gone("edge")
    feed.send(2, only=["t1"])
    assert "accepted: epoch" in _godwit(launcher, "change", url, "device t0 -> cloud")
    refused = _godwit(launcher, *forget, "edge", fails=True)
    assert "attached nowhere else (t2)" in refused, "t0 is elsewhere by now"
    assert "no site 'nowhere'" in _godwit(launcher, *forget, "edge", "--devices-to", "nowhere", fails=True)
    said = _godwit(launcher, *forget, "edge", "--devices-to", "east")
    assert "what it had taken in was handed over" in said
    assert "devices that were moved: t2" in said
    assert RegionId("edge") not in fleet.regions()
    assert set(fleet.deployment.sites) == {"east", "cloud"}
    feed.send(3)
    assert "site west removed" in _godwit(launcher, "history", url, "-o", "json")
    _ends_as_the_oracle_says(launcher, fleet, feed, spark)


def _godwit(launcher: Launcher, *arguments: str, fails: bool = False) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "godwit", *arguments], env={**os.environ, TOKEN: launcher.token()},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert (ran.returncode != 0) == fails, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


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


def _region_dies(launcher: Launcher, fleet: ConnectedFleet, feed: Feed, *, with_coordinator: bool = False) -> None:
    launcher.signal("edge", signal.SIGKILL)
    launcher.gone("edge")
    fleet.move_device("t0", "east")
    launcher.start_region(REGIONS[0])  # (while Spark starts, the coordinator has time to die and come back)
    if with_coordinator:
        launcher.signal("coordinator", signal.SIGKILL)
        launcher.gone("coordinator")
        feed.send(1, only=["t1", "t2"])
        launcher.start_coordinator()
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
        assert answered["join"] > 5
        entries = (opened.store.log(f"regions/{region}/sources/passengers").after(0) for region in ("edge", "cloud"))
        assert sum(sum(record["rows"].values()) for log in entries for _, record in log) == feed.rows
        return answered["tumbling"]
    finally:
        opened.stop()
