"""Regions and coordinator as processes, really killed: results equal the oracle's. One story over one started fleet.

The tests run in the order of this file; each leaves the fleet running for the next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.client import RemoteFleet
from godwit.errors import ConfigError, TypeMismatchError
from godwit.maintenance.housekeeping import Retention
from godwit.process.chaos import ChaosPlayer
from godwit.process.connect import ConnectedFleet
from godwit.process.launcher import Launcher
from godwit.process.wire import TOKEN, WireCaller
from godwit.replan.change_progress import under_way
from godwit.server.access import Access
from godwit.server.processes import ProcessBackend
from godwit.testing.chaos import FaultWeights, chaos
from tests.process.conftest import REGIONS
from tests.process.feed import Feed
from tests.region.world import QUERIES
from tests.server.conftest import Running

pytestmark = pytest.mark.lane("other")
NAMES = ("tumbling", "join")
BUSY = "SELECT train, count(*) AS n, window.end AS until FROM busy GROUP BY train, window(ts, '10 seconds')"
THREE = """SELECT a.train, b.train AS other, c.train AS third, a.ts FROM passengers a
           JOIN passengers b ON a.coach = b.coach
               AND b.ts BETWEEN a.ts - INTERVAL 2 SECONDS AND a.ts + INTERVAL 2 SECONDS
           JOIN passengers c ON b.boarded = c.boarded
               AND c.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS
           WHERE a.boarded > 5 AND b.alighted > 3 AND c.line = 'S41'"""


@pytest.fixture(scope="module")
def feed(fleet: ConnectedFleet) -> Feed:
    for name in NAMES:
        fleet.submit(QUERIES[name], name)
    fleet.submit(QUERIES["tumbling"] + " HAVING count(*) > 1", "more")  # of another shape, over the same window
    fleet.submit(THREE, "three")
    fleet.submit("INSERT INTO busy SELECT train, boarded, ts FROM passengers WHERE boarded > 5", "busy_rows")
    fleet.submit(BUSY, "busy")
    return Feed(fleet)


def test_rows_enter_at_regions_and_results_are_read_by_anybody(fleet: ConnectedFleet, feed: Feed) -> None:
    feed.send(8)
    fleet.process_available()
    assert fleet.results("tumbling").num_rows > 0


def test_a_query_that_spark_cannot_type_is_refused_by_a_coordinator_without_spark(fleet: ConnectedFleet) -> None:
    with pytest.raises(TypeMismatchError, match="Spark cannot type"):
        fleet.submit("SELECT train, date_add(boarded, train) AS x, ts FROM passengers", "wrong")


def test_devices_and_state_move_between_processes(fleet: ConnectedFleet, feed: Feed) -> None:
    fleet.move_device("t0", "east")
    feed.send(2)
    _place(fleet, "tumbling", "west")
    feed.send(2)
    fleet.move_device("t0", "west")
    feed.send(2)
    fleet.process_available()


def test_pushes_that_do_not_wait_follow_a_device_that_moves(fleet: ConnectedFleet, feed: Feed) -> None:
    with fleet.pipeline(window=8) as pipeline:
        feed.send(8, pipeline=pipeline)
        fleet.move_device("t0", "east")
        feed.send(8, pipeline=pipeline)
        fleet.move_device("t0", "west")
        feed.send(4, pipeline=pipeline)
    fleet.process_available()


@pytest.mark.parametrize(
    ("strategy", "order"), [("background", "(b JOIN c) JOIN a"), ("moving-state", "a JOIN b JOIN c")]
)
def test_plans_change_while_rows_come(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, strategy: str, order: str
) -> None:
    """Each region draws its own line; the coordinator hears from them how far they are, also if it is started again."""
    feed.send(1)
    fleet.replan("three", order=order, strategy=strategy)
    if strategy == "background":
        launcher.signal("coordinator", signal.SIGKILL)
        launcher.gone("coordinator")
        feed.send(2)
        launcher.start_coordinator()

    def over() -> bool:
        feed.send(1)
        now = fleet.deployment
        return not any(under_way(query, now) for query in now.queries.values())

    _eventually(over, 90)
    fleet.process_available()


def test_a_text_is_replaced(fleet: ConnectedFleet, feed: Feed) -> None:
    fleet.replace("busy", BUSY + " HAVING count(*) > 1")
    feed.send(2)
    fleet.process_available()


def test_windows_by_arrival_close_though_nothing_more_arrives(fleet: ConnectedFleet, feed: Feed) -> None:
    """The trains are in two processes, and only one of them sends."""
    sql = "SELECT train, count(*) AS n FROM passengers GROUP BY train, window(_arrived, '300 milliseconds')"
    fleet.submit(sql, "by_arrival")
    fleet.process_available()
    feed.send(1, only=["t1"])
    _eventually(lambda: [row["n"] for row in fleet.results("by_arrival").to_pylist()] == [5])
    fleet.withdraw("by_arrival")


def test_the_fleet_is_served_over_rest(launcher: Launcher, fleet: ConnectedFleet, feed: Feed) -> None:
    """The same application as over an embedded fleet: submit, push, follow, read, explain, move, status, page."""
    backend = ProcessBackend(lambda: ConnectedFleet(launcher.spec.store, launcher.token()))
    server = Running(backend, Access(), None)
    try:
        with RemoteFleet(server.url) as remote, httpx.Client(base_url=server.url, timeout=60) as http:
            assert "<title>godwit" in http.get("/").text
            assert "tumbling" in remote.queries
            assert set(remote.topology.now.sites) == {"west", "east", "cloud"}
            remote.stream("served", "n int, ts timestamp", site="west")
            remote.submit("SELECT n, ts FROM served WHERE n > 1", "served_rows")
            assert "Filter" in remote.explain("SELECT n, ts FROM served WHERE n > 1")
            came: list[int] = []
            following = remote.subscribe("served_rows")
            thread = threading.Thread(target=lambda: came.extend(next(following)["n"] for _ in range(2)), daemon=True)
            thread.start()
            sent = [{"n": n, "ts": "2026-01-01T00:00:01Z"} for n in (1, 2, 3)]
            assert remote.push("served", sent)
            thread.join(60)
            assert sorted(came) == [2, 3]
            assert sorted(row["n"] for row in remote.results("served_rows")) == [2, 3]
            assert "served" in remote.explain_change(["device served -> east"])
            remote.change(["device served -> east"])
            assert remote.push("served", [{"n": 4, "ts": "2026-01-01T00:00:02Z"}], device="served", sequence=1)
            assert not remote.push("served", [{"n": 4, "ts": "2026-01-01T00:00:02Z"}], device="served", sequence=1)
            remote.process_available()
            assert sorted(row["n"] for row in remote.results("served_rows")) == [2, 3, 4]
            remote.check()
            state = http.get("/v1/state").json()
            assert set(state["current"]["regions"]) == {"edge", "cloud"}
            assert any(query["name"] == "served_rows" for query in remote.status()["queries"])
            assert any("served" in story["cause"] for story in remote.history.read())
            assert "godwit_query_results_total" in http.get("/metrics").text
            assert http.post("/v1/streams/served/rows", json=[1, 2]).status_code == 422
            assert "fleet of processes" in http.get("/v1/dead-letters").json()["message"]
            with pytest.raises(ConfigError, match="fleet of processes"):
                remote.table("t", "id string", key="id")
            remote.withdraw("served_rows")
            assert "served_rows" not in remote.queries
    finally:
        server.stop()
        backend.stop()


def test_two_processes_under_one_name_are_refused(launcher: Launcher, fleet: ConnectedFleet) -> None:
    environment = {**os.environ, TOKEN: launcher.token()}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "godwit", *name, "--store", str(launcher.spec.store)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for name in (["region", "--name", "edge"], ["coordinator"])
    ]  # fmt: skip
    for one in started:
        _, said = one.communicate(timeout=90)
        assert one.returncode == 1
        assert "is in use by process" in said


def test_a_connection_without_the_token_is_refused_and_logged(launcher: Launcher) -> None:
    stranger = WireCaller(launcher.running()[1].member.address, "not the token at all", "cloud")
    with pytest.raises(ConfigError, match="does not take this token"):
        stranger.call({"do": "status"})
    log = launcher.spec.run / f"{launcher.running()[1].name}.log"
    assert "connected without the fleet's token" in log.read_text()


def test_regions_go_on_while_the_coordinator_is_away(launcher: Launcher, fleet: ConnectedFleet, feed: Feed) -> None:
    launcher.signal("coordinator", signal.SIGKILL)
    launcher.gone("coordinator")
    before = fleet.results("tumbling").num_rows
    feed.send(10)
    _eventually(lambda: fleet.results("tumbling").num_rows > before)
    launcher.start_coordinator()
    fleet.move_device("t1", "west")
    feed.send(2)
    fleet.process_available()


def test_a_killed_region_comes_back_and_goes_on(launcher: Launcher, fleet: ConnectedFleet, feed: Feed) -> None:
    feed.send(1)
    launcher.signal("edge", signal.SIGKILL)
    launcher.gone("edge")
    fleet.move_device("t1", "east")  # it has rows of this train, and hears of the move when it is back
    launcher.start_region(REGIONS[0])
    feed.send(3)  # sent again until they are taken
    fleet.process_available()


def test_a_region_whose_java_is_killed_ends_and_comes_back(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed
) -> None:
    """As the system does where memory is short: it takes the largest process."""
    region = launcher.pid("edge")
    assert region is not None
    (java,) = Path(f"/proc/{region}/task/{region}/children").read_text().split()
    assert Path(f"/proc/{java}/comm").read_text().strip() == "java"
    os.kill(int(java), signal.SIGKILL)
    launcher.gone("edge")
    assert "region edge ends: its Java has ended (exit code -9" in (launcher.spec.run / "edge.log").read_text()
    launcher.start_region(REGIONS[0])
    feed.send(2)
    fleet.process_available()


def test_a_silent_region_is_left_and_hands_over_when_it_is_back(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed
) -> None:
    fleet.move_device("t1", "east")
    _place(fleet, "tumbling", "west")
    assert "west" in _places(fleet, "tumbling")
    launcher.signal("edge", signal.SIGSTOP)
    try:
        feed.send(1, only=["t1"])
        launcher.signal("coordinator", signal.SIGUSR1)  # (its threads are in its log, should it not see the silence)
        _eventually(lambda: "west" not in _places(fleet, "tumbling"))
        feed.send(2, only=["t1"])
    finally:
        launcher.signal("edge", signal.SIGCONT)
    feed.send(2)
    fleet.process_available()


def test_a_short_script_of_faults(launcher: Launcher, fleet: ConnectedFleet, feed: Feed) -> None:
    """Pauses, cuts, delays and slowness; killed processes were above, and in the long scripts (`test_chaos.py`)."""
    weights = FaultWeights(send=1.0, move=1.0, kill_region=0.0, kill_coordinator=0.0)
    who = {"regions": ["edge", "cloud"], "devices": {f"t{n}": ["west", "east"] for n in range(3)}}
    script = chaos(12, 8, **who, queries=NAMES, weights=weights, longest=0.8)  # type: ignore[arg-type]
    assert script.faults >= 4
    assert len(ChaosPlayer(launcher, fleet, feed.send).play(script)) == script.faults
    fleet.process_available()


def test_all_stop_on_sigterm_and_the_oracle_agrees(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, spark: SparkSession
) -> None:
    fleet.close_sources()
    fleet.process_available()
    answered = {name: fleet.results(name).num_rows for name in (*NAMES, "more", "busy", "three")}
    cloud = launcher.pid("cloud")
    assert cloud is not None
    os.killpg(cloud, signal.SIGTERM)  # (its Java, too: as a terminal does, and systemd)
    written = launcher.spec.run / "cloud.log"
    _eventually(lambda: "region cloud has stopped" in written.read_text())
    assert "Traceback" not in written.read_text()
    launcher.down()
    opened = Fleet(launcher.spec.store, spark, retention=Retention(keep=True))
    try:
        for name, rows in answered.items():
            verdict = opened.query(name).verdict()
            assert verdict.equal, str(verdict)
            assert verdict.got == rows or name == "busy"  # (of what was replaced only results since then are judged)
        assert answered["tumbling"] > 20
        assert min(answered.values()) > 0, answered
    finally:
        opened.stop()


def _place(fleet: ConnectedFleet, query: str, site: str) -> None:
    plan = fleet.deployment.queries[query].shape.plan  # type: ignore[index]
    fleet.place({f"{query}/{i}": site for i in range(len(plan.operators)) if not plan.is_local(i)})


def _places(fleet: ConnectedFleet, query: str) -> set[str]:
    """Where the operators of a query are that are in one place for all devices, but for its sink."""
    now = fleet.deployment
    plan = now.queries[query].shape.plan  # type: ignore[index]
    apart = [i for i in range(len(plan.operators) - 1) if not plan.is_local(i)]
    return {
        str(site) for instance, site in now.placement.items() if instance.query == query and instance.operator in apart
    }


def _eventually(holds, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)
