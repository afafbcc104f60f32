"""What users pass to a fleet: taken where it makes sense, refused with the remedy where it does not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.session import check_session, spark_session
from godwit.errors import ConfigError, DeploymentError, GodwitError, SourceError, SqlError, TopologyError
from godwit.ids import DeviceId, QueryId
from godwit.model.changes import DeviceAdded
from godwit.model.topology import Device, Link, Site, Topology

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COUNTS = "SELECT train, count(*) AS n, window.end AS until FROM trains GROUP BY train, window(ts, '2 seconds')"


@pytest.fixture
def fleet(open_fleet: OpenFleet) -> Fleet:
    return ground(open_fleet())


def ground(fleet: Fleet, *trains: str) -> Fleet:
    sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "centre", kind="cloud")]
    fleet.topology.add(Topology.of(sites, [Link("west", "cloud"), Link("east", "cloud")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    for train in trains or ("t0",):
        fleet.device(train, site="west", streams=["trains"])
    return fleet


def row(second: float, train: str = "t0") -> dict[str, Any]:
    return {"train": train, "n": 1, "ts": START + dt.timedelta(seconds=second)}


S = "a int, ts timestamp"
#: a bit more than a day ahead, in microseconds
TOMORROW = int(dt.datetime.now(dt.UTC).timestamp() * 1e6) + 90_000_000_000
QUERY_X = [DeviceAdded(Device(DeviceId("query:x")))]
CASES: list[tuple[str, type[GodwitError], str, Callable[[Fleet], object]]] = [
    ("query ''", ConfigError, "needs a name", lambda f: f.submit(COUNTS, "")),
    ("query ..", ConfigError, "folder's path", lambda f: f.submit(COUNTS, "..")),
    ("query a/b", ConfigError, "'/'", lambda f: f.submit(COUNTS, "a/b")),
    ("query a@b", ConfigError, "'@'", lambda f: f.submit(COUNTS, "a@b")),
    ("query None", ConfigError, "needs a name", lambda f: f.submit(COUNTS, None)),  # type: ignore[arg-type]
    ("query 300", ConfigError, "300 characters", lambda f: f.submit(COUNTS, "x" * 300)),
    ("query NUL", ConfigError, "cannot be printed", lambda f: f.submit(COUNTS, "a\0")),
    ("query 7", ConfigError, "named by text", lambda f: f.submit(COUNTS, 7)),  # type: ignore[arg-type]
    ("stream a-b", ConfigError, "SQL identifier", lambda f: f.stream("a-b", S, site="west")),
    ("stream case", ConfigError, "same name to SQL", lambda f: f.stream("Trains", S, site="west")),
    ("device query:x", ConfigError, "reserved", lambda f: f.device("query:x", site="west")),
    ("device added", TopologyError, "reserved", lambda f: f.change(QUERY_X)),
    ("target", SqlError, "SQL identifier", lambda f: f.submit("INSERT INTO `a-b` SELECT train, ts FROM trains", "q")),
    ("target column", SqlError, "AS name", lambda f: f.submit("INSERT INTO d SELECT n AS `a b`, ts FROM trains", "q")),
    ("time ahead", SourceError, "ahead of the clock here", lambda f: f.tell_time("trains", {DeviceId("t0"): TOMORROW})),
    ("time's unit", SourceError, "is its unit right", lambda f: f.tell_time("trains", {DeviceId("t0"): 2**60})),
    ("feeder", SourceError, "'/'", lambda f: f.replay("trains", __file__, name="a/b")),
    ("time string", ConfigError, "declare it as timestamp", lambda f: f.stream("s", "ts string", site="west")),
    ("time date", ConfigError, "declare it as timestamp", lambda f: f.stream("s", "ts date", site="west")),
    ("time ntz", ConfigError, "declare it as timestamp", lambda f: f.stream("s", "ts timestamp_ntz", site="west")),
    ("schema", SourceError, "is not a schema", lambda f: f.stream("s", "ts timestamp,,", site="west")),
    ("disorder", ConfigError, "disorder='-1 second'", lambda f: f.stream("s", S, site="west", disorder="-1 second")),
    ("idle", ConfigError, "idle='-1 second'", lambda f: f.stream("s", S, site="west", idle="-1 second")),
    ("ahead", ConfigError, "ahead='soon'", lambda f: f.stream("s", S, site="west", ahead="soon")),
    ("column twice", ConfigError, "twice", lambda f: f.stream("s", "a int, a int, ts timestamp", site="west")),
    ("column case", ConfigError, "same name to SQL", lambda f: f.stream("s", "a int, A int, ts timestamp")),
    ("column dot", ConfigError, "because of '.'", lambda f: f.stream("s", "`a.b` int, ts timestamp", site="west")),
    ("sequence", SourceError, "needs a sender", lambda f: f.push("trains", [row(0)], sequence=1)),
    ("no rows", SourceError, "push a list of dicts", lambda f: f.device("t0").push(None)),
    ("sink", DeploymentError, "did you mean 'cloud'", lambda f: f.submit(COUNTS, "q", sink="clod")),
]


@pytest.mark.parametrize(("kind", "words", "act"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refusals_name_the_thing_and_the_remedy(
    fleet: Fleet, kind: type[GodwitError], words: str, act: Callable[[Fleet], object]
) -> None:
    before = fleet.deployment
    with pytest.raises(kind) as told:
        act(fleet)
    assert words in str(told.value)
    assert fleet.deployment == before


def test_misspelt_options_are_named_with_the_nearest(open_fleet: OpenFleet) -> None:
    with pytest.raises(ConfigError, match="no option 'retntion'; did you mean 'retention'"):
        open_fleet(retntion=None)


def test_rows_that_fit_nobody_are_told_apart_and_the_rest_is_answered(fleet: Fleet) -> None:
    """Through one handle: another's row, a year 9999, a row from next week, half a person. None stops the others."""
    fleet.gateway.now = START.timestamp
    query = fleet.submit(COUNTS, "q")
    train = fleet.device("t0")
    wild = [row(0), row(0, "t9"), {**row(1), "ts": START.replace(year=9999)}, row(7 * 86_400), {**row(1), "n": 1.5}]
    train.push(wild)
    train.push(row(1))
    train.push(r for r in [row(5)])
    fleet.process_available()
    assert [r["n"] for r in query.results().collect()] == [2]  # [0, 2), though a row came from next week
    assert len(fleet.dead_letters()) == 4
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().equal


def test_a_detached_device_refuses_what_is_no_rows_at_once(fleet: Fleet) -> None:
    train = fleet.device("t0")
    train.detach()
    with pytest.raises(SourceError, match="push a list of dicts"):
        train.push("rows")
    train.push(r for r in [row(0)])
    train.attach("east")
    assert fleet.dead_letters() == []


def test_a_session_that_would_give_other_results_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    other = spark.newSession()
    check_session(spark)
    for key, value in (("spark.sql.session.timeZone", "Europe/Berlin"), ("spark.sql.ansi.enabled", "true")):
        before = other.conf.get(key)
        other.conf.set(key, value)
        with pytest.raises(ConfigError, match=f"{key}={value}"):
            Fleet(tmp_path / "fleet", other)
        assert before is not None
        other.conf.set(key, before)
    with pytest.raises(ConfigError, match=r"spark\.sql\.shuffle\.partitions=.* '77' is needed"):
        spark_session(settings={"spark.sql.shuffle.partitions": "77"})
    assert spark_session() is not None


def test_query_names_never_leave_the_folder(fleet: Fleet) -> None:
    handle = fleet.submit(COUNTS, "Züge nach 5")
    assert handle.id == QueryId("Züge nach 5")
    fleet.device("t0").push([row(0), row(9)])
    fleet.process_available()
    assert handle.results().count() == 1


def answered(fleet: Fleet) -> dict[tuple[str, int], int]:
    rows = fleet.query("q").results().collect()
    return {(r["train"], int((r["until"].replace(tzinfo=dt.UTC) - START).total_seconds())): r["n"] for r in rows}


@pytest.mark.parametrize("reopened", [False, True])
def test_whoever_sends_after_the_end_begins_again(open_fleet: OpenFleet, reopened: bool) -> None:
    """All windows closed; later rows count, and nothing that was answered is answered again."""
    fleet = ground(open_fleet(), "t0", "t1")
    fleet.submit(COUNTS, "q")
    for train in ("t0", "t1"):
        fleet.device(train).push([row(0, train), row(5, train)])
    fleet.close_sources()
    fleet.process_available()
    assert answered(fleet) == {(t, s): 1 for t in ("t0", "t1") for s in (2, 6)}
    if reopened:
        fleet.stop()
        fleet = open_fleet()
    fleet.device("t0").push([row(60), row(61), row(70)])
    fleet.process_available()
    assert answered(fleet)["t0", 62] == 2  # t1 is closed: nobody waits for it
    assert ("t0", 72) not in answered(fleet)
    fleet.close_sources()
    fleet.process_available()
    assert answered(fleet)["t0", 72] == 1
    assert fleet.query("q").verdict().equal
    assert fleet.query("q").late().count() == 0


def test_a_device_that_is_closed_and_sends_again_is_not_late(open_fleet: OpenFleet) -> None:
    fleet = ground(open_fleet(), "t0", "t1")
    fleet.submit(COUNTS, "q")
    for train in ("t0", "t1"):
        fleet.device(train).push([row(0, train), row(3, train)])
    fleet.device("t1").close()
    fleet.device("t0").push([row(20)])
    fleet.process_available()
    assert ("t1", 4) in answered(fleet)
    fleet.device("t1").push([row(21, "t1")])
    fleet.device("t0").push([row(40)])
    fleet.process_available()
    assert ("t0", 22) not in answered(fleet) or ("t1", 22) in answered(fleet)
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q").verdict().equal


def test_a_clock_that_was_wrong_is_reset(open_fleet: OpenFleet) -> None:
    """A row from the far future: without a reset, all later rows of its device would let windows close too early."""
    fleet = ground(open_fleet(), "t0", "t1")
    fleet.submit(COUNTS, "q")
    wild = fleet.device("t0")
    wild.push([row(0), row(3600)])
    fleet.device("t1").push([row(10, "t1")])
    fleet.process_available()
    wild.reset_clock()
    fleet.device("t1").push([row(30, "t1")])
    wild.push([row(12)])
    fleet.process_available()
    assert ("t1", 12) in answered(fleet)
    assert ("t0", 14) not in answered(fleet)  # its clock says 12, and holds the window open
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q").verdict().equal


def test_devices_that_never_came_hold_no_window_open(open_fleet: OpenFleet) -> None:
    fleet = ground(open_fleet())
    for k in range(1, 4):
        fleet.device(f"t{k}", streams=["trains"])
    fleet.submit(COUNTS, "q")
    fleet.device("t0").push([row(0), row(5)])
    fleet.process_available()
    assert answered(fleet) == {("t0", 2): 1}
    late_comer = fleet.device("t1")
    late_comer.attach("east")
    late_comer.push([row(6, "t1"), row(9, "t1")])
    fleet.device("t0").push([row(9)])
    fleet.close_sources()
    fleet.process_available()
    assert answered(fleet)["t1", 8] == 1
    assert fleet.query("q").verdict().equal


def test_a_sum_that_overflows_wraps_around_as_in_a_batch(open_fleet: OpenFleet) -> None:
    """docs/sql.md: arithmetic is Spark's with ANSI mode off, also where partial sums are merged."""
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("big", "v bigint, ts timestamp", site="west")
    query = fleet.submit("SELECT sum(v) AS s, window.end AS until FROM big GROUP BY window(ts, '10 seconds')", "q")
    for second in (1, 2, 3):
        fleet.push("big", [{"v": 2**63 - 1, "ts": START + dt.timedelta(seconds=second)}])
        fleet.process_available()
    fleet.close_sources()
    fleet.process_available()
    assert [r["s"] for r in query.results().collect()] == [2**63 - 3]
    assert query.verdict().equal
