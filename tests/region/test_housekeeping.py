"""Housekeeping: a long run stays small, and nothing goes that somebody is still to read."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.delivery.sinks import CallbackSink
from godwit.errors import StateError
from godwit.ingest.source_log import DeadLetters
from godwit.maintenance import housekeeping
from godwit.maintenance import supervisor as supervisor
from godwit.maintenance.housekeeping import Retention
from godwit.model.changes import DeviceMoved
from godwit.model.topology import Link, Site, Topology
from godwit.protocol import commit
from godwit.region.runner import Limits
from godwit.region.state import FAN_IN
from godwit.storage import chunk, names
from godwit.storage.store import Store
from tests.region.world import QUERIES, Action, Attach, Crash, Move, Push, Step, World

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
#: lets go at once of whatever nobody needs
AT_ONCE = Retention(source_seconds=0.0, result_seconds=3600.0, every=10_000)


def rows(number: int, count: int = 4) -> list[dict[str, Any]]:
    at = START + dt.timedelta(seconds=number)
    return [{"name": f"n{i % 2}", "size": number, "ts": at + dt.timedelta(milliseconds=i)} for i in range(count)]


def two_regions(fleet: Fleet) -> None:
    sites = [Site("edge", "west"), Site("cloud", "centre", kind="cloud")]
    fleet.topology.add(Topology.of(sites, [Link("edge", "cloud")]))
    fleet.stream("readings", "name string, size int, ts timestamp", site="edge")


def one_region(fleet: Fleet, sql: str) -> QueryHandle:
    fleet.topology.add(Topology.of([Site("here", "one")]))
    fleet.stream("readings", "name string, size int, ts timestamp", site="here")
    return fleet.submit(sql, "q")


def files(root: Path) -> int:
    return sum(path.is_file() for path in root.rglob("*"))


def size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


WINDOWS = "SELECT name, sum(size) AS total, window.end AS until FROM readings GROUP BY name, window(ts, '3 seconds')"


@pytest.mark.parametrize("batches", [72, pytest.param(400, marks=pytest.mark.full)])
def test_a_long_run_stays_small_and_fast(open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch, batches: int) -> None:
    eighth = batches // 8
    monkeypatch.setattr(housekeeping, "RECENT", eighth)
    monkeypatch.setattr(chunk, "CHUNK_RECORDS", 4)  # (what is not needed goes chunk by chunk)
    fleet = open_fleet(retention=Retention(source_seconds=0.0, result_seconds=0.0, every=eighth))
    query = one_region(fleet, WINDOWS)
    got: list[dict[str, Any]] = []
    query.write_to(CallbackSink(got.extend))
    counts, sizes, took = [], [], []
    (runner,) = fleet.pool.runners.values()
    for number in range(batches):
        fleet.push("readings", rows(number))
        record = runner.step()
        assert record is not None
        took.append(record["metrics"]["took_ms"])
        fleet.supervisor.flush()
        if (number + 1) % eighth == 0:
            counts.append(files(fleet.root))
            sizes.append(size(fleet.root))
    assert max(counts[5:]) <= 1.3 * max(counts[3:5]), counts
    assert max(sizes[5:]) <= 1.3 * max(sizes[3:5]), sizes
    assert statistics.median(took[6 * eighth :]) <= 2.0 * statistics.median(took[2 * eighth : 4 * eighth])
    fleet.close_sources()
    fleet.process_available()
    # Every result was delivered, though hardly any of it is still there.
    assert sum(r["total"] for r in got) == sum(4 * n for n in range(batches))
    assert fleet.status().queries[0].rows_out == len(got)
    assert query.results().count() < len(got)
    with pytest.raises(StateError, match=r"cannot be compared.*Retention\(keep=True\)"):
        query.verdict()


def test_dead_letters_are_counted_for_ever_and_kept_for_a_while(
    open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeadLetters, "MOST_BYTES", 1000)
    fleet = open_fleet()
    two_regions(fleet)
    for number in range(60):
        fleet.push("readings", [{"name": f"bad {number}", "size": "many", "ts": START}])
    assert fleet.status().dead == {"readings": 60}
    kept = fleet.dead_letters()
    assert 5 < len(kept) < 40
    assert kept[-1]["row"]["name"] == "bad 59"


@pytest.mark.parametrize("keep", [False, True])
def test_a_pass_is_done_bit_by_bit_and_nothing_is_missing_in_between(
    open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    monkeypatch.setattr(housekeeping, "RECENT", 2)
    monkeypatch.setattr(commit, "SNAPSHOT_EVERY", 4)  # every commit of so small a memory has it whole
    monkeypatch.setattr(supervisor, "SLICE", 0.0)  # one bit at a time
    fleet = open_fleet(retention=Retention(keep=keep, source_seconds=0.0, every=10))
    query = one_region(fleet, "SELECT name, size FROM readings")
    (runner,) = fleet.pool.runners.values()
    before = files(fleet.root)
    first = []
    for number in range(24):
        fleet.push("readings", rows(number))
        runner.step()
        if number % 12 < 11:
            continue
        for bit in range(60):
            fleet.supervisor.flush()
            first.append(fleet.store.log(runner.commits.name).first)
            if bit % 10 == 5:
                assert query.results().count() == 4 * (number + 1)
    assert first[5] == 1  # a pass in one go would have dropped them all at the first look
    assert first[59] > 9
    assert first[-1] > 20
    assert keep or files(fleet.root) < before + 60
    assert not keep or query.verdict().equal


def test_records_whose_removal_was_cut_short_go_the_next_time(tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    log = store.log("commands")
    for number in range(5):
        log.append({"number": number})
    next(log.drop(4))  # and no further: the process ends here
    again = store.log("commands")
    assert again.first == 4
    assert list(again.drop(4)) == [2, 3]
    assert store.numbers("commands") == [4, 5]
    assert [record["number"] for _, record in again.after(3)] == [3, 4]


def test_what_a_slow_region_has_not_read_stays(open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "RECENT", 4)
    fleet = open_fleet(retention=AT_ONCE, limits=Limits(max_lag=1000))
    two_regions(fleet)
    query = fleet.submit(WINDOWS, "q", sink="cloud")
    plan = fleet.deployment.queries["q"].shape.plan  # type: ignore[index]
    fleet.move({f"q/{i}": "cloud" for i in range(len(plan.operators)) if not plan.is_local(i)})
    fleet.process_available()
    edge = next(r for (region, _), r in fleet.pool.runners.items() if region == "west")
    cloud = next(r for (region, _), r in fleet.pool.runners.items() if region == "centre")
    read = cloud.positions["peer:west"]
    for number in range(30):
        fleet.push("readings", rows(number))
        edge.step()
        if number % 8 == 0:
            fleet.supervisor.sweep()
    outbox = fleet.store.log(names.outbox_log("west", edge.shape.key, "centre"))
    assert outbox.first <= read + 1  # the cloud has read no further
    fleet = open_fleet(retention=AT_ONCE)  # ... and must find it all after a restart
    fleet.process_available()
    fleet.push("readings", rows(30))
    fleet.process_available()
    assert fleet.supervisor.sweep().commits > 10
    fleet.close_sources()
    fleet.process_available()
    total = sum(r.total for r in fleet.query("q").results().collect())
    assert total == sum(4 * n for n in range(31))
    assert query.id == "q"


def test_recorded_files_and_live_state_are_never_removed(
    open_fleet: OpenFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "RECENT", 4)
    fleet = open_fleet(retention=AT_ONCE)
    query = one_region(fleet, WINDOWS.replace("3 seconds", "1000 seconds"))
    recorded = tmp_path / "recorded.parquet"
    schema = fleet.schema("readings")  # type: ignore[arg-type]
    pq.write_table(schema.conform(rows(0)).table, recorded)
    fleet.replay("readings", recorded).run()
    for number in range(1, 20):
        fleet.push("readings", rows(number))
        fleet.pool.step_all()
    assert fleet.supervisor.sweep().entries > 0
    fleet.supervisor.sweep()  # files go one pass after their records
    (runner,) = fleet.pool.runners.values()
    assert len(fleet.store.disk.names(runner.data.reference)) < 16
    assert recorded.exists()
    again = open_fleet(retention=AT_ONCE)  # sources know their clocks and sequence numbers though entries are gone
    assert again.gateway.source("readings", "readings").clock > 0  # type: ignore[arg-type]
    again.replay("readings", recorded).run()
    again.close_sources()
    again.process_available()
    assert sum(r.total for r in again.query("q").results().collect()) == sum(4 * n for n in range(20))
    assert query.id == "q"


def test_keep_keeps_what_the_oracle_needs(open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "RECENT", 4)
    fleet = open_fleet(retention=Retention(keep=True, source_seconds=0.0, result_seconds=0.0, every=10))
    query = one_region(fleet, WINDOWS)
    for number in range(20):
        fleet.push("readings", rows(number))
        fleet.pool.step_all()
    fleet.process_available()
    fleet.close_sources()
    fleet.process_available()
    fleet.supervisor.sweep()
    (runner,) = fleet.pool.runners.values()
    assert fleet.store.log(runner.commits.name).first > 1
    assert query.verdict().equal, query.verdict()


def test_a_moving_fleet_that_keeps_house_answers_like_the_oracle(
    open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instances move, the process dies at bad moments, and every few commits everything that may go goes."""
    monkeypatch.setattr(housekeeping, "RECENT", 1)
    monkeypatch.setattr(housekeeping, "MANY_EPOCHS", 2)
    keep = Retention(keep=True, every=2)
    chosen = {name: QUERIES[name] for name in ("tumbling", "join")}
    world = World(lambda **options: open_fleet(retention=keep, **options), chosen, trains=2)
    script: list[list[Action]] = [
        [Push(0, 0, 6), Push(1, 1, 6), Step((0, 1, 2, 3))],
        [Move("tumbling", "cloud"), Push(0, 4, 6), Step((0, 2))],
        [Move("join", "west"), Push(1, 6, 6), Attach(0, "east"), Crash("staged")],
        [Push(0, 9, 6), Move("tumbling", "east"), Step((1, 0, 3)), Crash("committed")],
        [Push(0, 16, 6), Push(1, 17, 6), Move("join", "cloud"), Step((2, 1, 0, 4, 5))],
    ]
    dropped = epochs = 0
    for actions in script:
        world.play(actions)
        for _ in range(2):
            swept = world.fleet.supervisor.sweep()
            dropped, epochs = dropped + swept.commits, epochs + swept.epochs
    verdicts = world.finish()
    assert all(verdict.equal for verdict in verdicts), verdicts
    assert all(verdict.got for verdict in verdicts)
    assert dropped > 0
    assert epochs > 0


def test_many_epochs_become_one(open_fleet: OpenFleet) -> None:
    fleet = open_fleet(retention=AT_ONCE)
    two_regions(fleet)
    fleet.submit("SELECT name, size, ts FROM readings", "q")
    for number in range(120):
        fleet.change([DeviceMoved("readings", "cloud" if number % 2 else "edge")])  # type: ignore[arg-type]
    fleet.push("readings", rows(0))
    fleet.process_available()
    before = fleet.deployment
    assert fleet.supervisor.sweep().epochs > 100
    again = open_fleet()
    assert again.deployment.devices == before.devices
    assert again.deployment.placement == before.placement
    # A shape that is new begins to read after the epochs that are gone.
    again.submit("SELECT name, size + 1 AS more, ts FROM readings", "later")
    again.push("readings", rows(1))
    again.process_available()
    assert again.query("later").results().count() == 4
    assert again.query("q").results().count() == 8


def test_a_runner_waits_for_a_reader_that_lags(open_fleet: OpenFleet) -> None:
    fleet = open_fleet(limits=Limits(max_lag=4))
    two_regions(fleet)
    fleet.submit("SELECT name, size, ts FROM readings", "q", sink="cloud")
    fleet.process_available()
    edge = next(r for (region, _), r in fleet.pool.runners.items() if region == "west")
    before = edge.commits.last
    for number in range(12):
        fleet.push("readings", rows(number))
        edge.step()
    assert edge.commits.last - before <= 5
    assert fleet.status().runners[1].unread > 0
    fleet.process_available()  # the cloud reads, and the edge goes on
    assert fleet.query("q").results().count() == 48


@pytest.mark.parametrize("kind", ["windows", "join"])
def test_state_does_not_wait_for_queries_that_live_elsewhere(open_fleet: OpenFleet, kind: str) -> None:
    """Two queries of one shape, each in its own region: neither hears how far the other has come, nor need it."""
    window = "SELECT train, count(*) AS n FROM trains WHERE train = '{0}' GROUP BY train, window(ts, '2 seconds')"
    join = """SELECT a.n, b.n AS other FROM trains a JOIN trains b ON a.train = b.train
              AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND
              WHERE a.train = '{0}' AND b.train = '{0}'"""
    fleet = open_fleet()
    sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "centre", kind="cloud")]
    fleet.topology.add(Topology.of(sites, [Link("west", "cloud"), Link("east", "cloud")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    trains = {name: fleet.device(name, site=s, streams=["trains"]) for name, s in (("t0", "west"), ("t1", "east"))}
    for name in trains:
        fleet.submit((window if kind == "windows" else join).format(name), f"of_{name}")

    def play(seconds: range) -> int:
        for second in seconds:
            for name, train in trains.items():
                at = [START + dt.timedelta(seconds=second, milliseconds=100 * i) for i in range(10)]
                train.push([{"train": name, "n": i, "ts": ts} for i, ts in enumerate(at)])
            fleet.process_available()
        return max(s.rows for runner in fleet.pool.runners.values() for s in runner.memory.states.values())

    most = 100 if kind == "join" else 5
    assert play(range(30)) <= most
    trains["t0"].attach("east")  # where it was, nothing of it stays behind
    assert play(range(30, 40)) <= 2 * most
    west = [r for (region, _), r in fleet.pool.runners.items() if region == "west"]
    assert sum(s.rows for runner in west for s in runner.memory.states.values()) == 0
    fleet.close_sources()
    fleet.process_available()
    for name in trains:
        verdict = fleet.query(f"of_{name}").verdict()
        assert verdict.equal, verdict
        assert verdict.got > 0


@pytest.mark.parametrize("sql", [WINDOWS.replace("3 seconds", "50 seconds"), "JOIN"])
def test_compaction_changes_no_result(open_fleet: OpenFleet, sql: str) -> None:
    join = """SELECT a.name, a.size, b.size AS other FROM readings a JOIN readings b
              ON a.name = b.name AND a.ts BETWEEN b.ts - INTERVAL 20 SECONDS AND b.ts + INTERVAL 20 SECONDS
              WHERE a.size < b.size"""
    fleet = open_fleet()
    query = one_region(fleet, join if sql == "JOIN" else sql)
    most = 0
    for number in range(FAN_IN + 2):
        fleet.push("readings", rows(number, count=3))
        fleet.pool.step_all()
        (runner,) = fleet.pool.runners.values()
        most = max(most, *(len(state.live) for state in runner.memory.states.values()))
    assert most <= FAN_IN  # more batches appended a segment each
    fleet.close_sources()
    fleet.process_available()
    verdict = query.verdict()
    assert verdict.equal, verdict
    assert verdict.got > 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_shape_that_comes_back_sees_only_what_comes_since(
    open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    """Its runners are let go with its last query; what came between was for nobody, whatever the query's name."""
    monkeypatch.setattr(housekeeping, "MANY_EPOCHS", 1)
    monkeypatch.setattr(housekeeping, "RECENT", 0)
    keeping = Retention(result_seconds=3600.0, every=10_000)
    fleet = open_fleet(retention=keeping)
    two_regions(fleet)
    fleet.submit("SELECT name, size FROM readings WHERE size > 0", "other")
    for life in range(2):
        query = fleet.submit(WINDOWS, "q")
        fleet.push("readings", rows(10 * life + 1) + rows(10 * life + 2))
        fleet.process_available()
        if life == 0:
            shape = fleet.deployment.queries["q"].shape.key  # type: ignore[index]
            query.stop()
            fleet.push("readings", rows(5))
            fleet.process_available()
            fleet.supervisor.sweep()
            assert shape not in {key for _, key in fleet.pool.runners}
            if restart:
                fleet.stop()
                fleet = open_fleet(retention=keeping)
    fleet.close_sources()
    fleet.process_available()
    totals = sorted((row["name"], row["total"]) for row in fleet.query("q").results().collect() if row["total"] > 10)
    assert totals == [("n0", 2 * 11), ("n0", 2 * 12), ("n1", 2 * 11), ("n1", 2 * 12)]
    assert fleet.query("q").verdict().equal
    assert fleet.query("other").verdict().equal
