"""One loop per region: news by log, in turn, timers without polls, large steps beside, one pass per epoch."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.engine import plan_cache
from godwit.engine.size_policy import SizePolicy
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.model.topology import Site, Topology
from godwit.region import epochs, loop
from godwit.region.runner import Limits, Runner
from tests.waiting import until

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
FILTER = "SELECT train, n FROM {} WHERE n >= 0"
COUNTS = "SELECT count(*) AS n, window.end AS until FROM {} GROUP BY window(ts, '2 seconds')"


def rows(train: str, *seconds: float) -> list[dict[str, Any]]:
    return [{"train": train, "n": int(s), "ts": START + dt.timedelta(seconds=s)} for s in seconds]


def fleet_of(opened: Callable[..., Fleet], *queries: str, **options: Any) -> Fleet:
    """One region, two streams (`trains`, `trams`), a device of each."""
    fleet = opened(**options)
    fleet.topology.add(Topology.of([Site("here", "one"), Site("there", "one")]))
    for stream in ("trains", "trams"):
        fleet.stream(stream, "train string, n int, ts timestamp", device="train")
        fleet.device(stream, site="here", streams=[stream])
    for number, sql in enumerate(queries):
        fleet.submit(sql, f"q{number}")
    return fleet


def runner_of(fleet: Fleet, query: str) -> Runner:
    (runner,) = fleet.pool.of_shape(fleet.execution(QueryId(query)).shape.key)
    return runner


def warm(fleet: Fleet, streams: tuple[str, ...] = ("trains", "trams")) -> None:
    """Some micro-batches of each shape, so that no plan is left to compile."""
    fleet.start()
    for second in range(4):
        for stream in streams:
            fleet.push(stream, rows(stream, 10.0 * second))
        fleet.process_available()


class Counted:
    """Counts the calls of a method, whoever makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.calls: list[Any] = []
        original = getattr(owner, name)

        def counted(target: Any, *args: Any, **options: Any) -> Any:
            self.calls.append((target, args, threading.current_thread().name))
            return original(target, *args, **options)

        monkeypatch.setattr(owner, name, counted)


def test_a_push_is_seen_without_waiting_for_a_look(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY", 3600.0)
    fleet = fleet_of(open_fleet, FILTER.format("trains"))
    warm(fleet)
    runner = runner_of(fleet, "q0")
    for second in range(50, 55):
        before = runner.commits.last
        fleet.push("trains", rows("trains", second))
        until(lambda before=before: runner.commits.last > before)  # type: ignore[misc]


def test_news_of_one_stream_is_no_news_for_readers_of_another(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY", 3600.0)
    fleet = fleet_of(open_fleet, FILTER.format("trains"), FILTER.format("trams"))
    warm(fleet)
    looked = Counted(monkeypatch, Runner, "waiting")
    trains = runner_of(fleet, "q0")
    before = trains.commits.last
    fleet.push("trains", rows("trains", 60.0))
    until(lambda: trains.commits.last > before)
    assert {target.shape.key for target, _, _ in looked.calls} == {trains.shape.key}


def test_an_idle_fleet_makes_no_steps(open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(open_fleet, FILTER.format("trains"), COUNTS.format("trams"))
    warm(fleet)
    stepped = Counted(monkeypatch, Runner, "step")
    time.sleep(2.5)
    assert stepped.calls == []


def test_a_timer_goes_off_though_nothing_comes(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_EVERY", 3600.0)
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("here", "one")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train", idle="1 second")
    for train in ("t0", "t1"):
        fleet.device(train, site="here", streams=["trains"])
    fleet.submit(COUNTS.format("trains"), "q0")
    fleet.start()
    fleet.push("trains", [*rows("t1", 0.0), *rows("t0", 0.0)])
    fleet.process_available()
    fleet.push("trains", rows("t0", 9.0))
    until(lambda: fleet.query("q0").results().count() == 1)


def test_a_flooded_shape_does_not_starve_another(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, FILTER.format("trains"), FILTER.format("trams"))
    warm(fleet)
    flooded, calm, stop = runner_of(fleet, "q0"), runner_of(fleet, "q1"), threading.Event()

    def flood() -> None:
        second = 100.0
        while not stop.is_set():
            fleet.push("trains", rows("trains", second))
            second += 1.0

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        until(lambda: flooded.commits.last > 10)
        steps = []
        for second in range(5):
            calm_before, flooded_before = calm.commits.last, flooded.commits.last
            fleet.push("trams", rows("trams", 100.0 + second))
            until(lambda before=calm_before: calm.commits.last > before)  # type: ignore[misc]
            steps.append(flooded.commits.last - flooded_before)
    finally:
        stop.set()
        thread.join()
    # (some are committed while the row is still on its way to the loop; whoever starves waits for all of them)
    assert sorted(steps)[2] <= 8, f"micro-batches of the flooded shape before one of the other: {steps}"


def test_a_large_step_runs_beside_and_small_ones_go_on(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, inside = threading.Event(), threading.Event()
    fleet = fleet_of(
        open_fleet, FILTER.format("trains"), FILTER.format("trams"), limits=Limits(sizes=SizePolicy(beside_rows=100))
    )
    warm(fleet)
    large, small = runner_of(fleet, "q0"), runner_of(fleet, "q1")
    run = Runner._run

    def slow(runner: Runner, folder: Any, work: Any, decision: Any) -> Any:
        if work.rows > 100:
            inside.set()
            assert gate.wait(60)
        return run(runner, folder, work, decision)

    monkeypatch.setattr(Runner, "_run", slow)
    fleet.push("trains", rows("trains", *range(100, 400)))
    assert inside.wait(30)
    before, stuck = small.commits.last, large.commits.last
    fleet.push("trams", rows("trams", 100.0))
    until(lambda: small.commits.last > before)
    assert large.commits.last == stuck
    gate.set()
    until(lambda: large.commits.last > stuck)
    fleet.process_available()
    assert fleet.query("q0").results().count() == 304


def test_an_epoch_is_read_once_and_adopted_in_one_pass(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(open_fleet, FILTER.format("trains"), FILTER.format("trams"), COUNTS.format("trams"))
    warm(fleet)
    read = Counted(monkeypatch, epochs.EpochReader, "_read")
    stepped = Counted(monkeypatch, Runner, "_step")
    commits = fleet.pool.committed()
    fleet.device("trains").attach("there")  # a label within the region: no shape has anything to do
    until(lambda: fleet.pool.adopted == int(fleet.deployment.epoch))
    made = [args[0] for _, args, _ in read.calls]
    assert made.count(int(fleet.deployment.epoch) - 1) == 1, "each epoch is applied once in a process"
    assert {args[0] for _, args, _ in stepped.calls[:3]} == {False}, (
        "no rows are read before all shapes have adopted it"
    )
    assert {name for _, _, name in stepped.calls[:3]} == {"one/loop"}
    fleet.process_available()
    assert fleet.pool.committed() - commits <= 3


def test_a_runner_that_fails_does_not_stop_the_others(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_of(open_fleet, FILTER.format("trains"), FILTER.format("trams"))
    warm(fleet)
    bad, good = runner_of(fleet, "q0"), runner_of(fleet, "q1")
    run = Runner._run

    def broken(runner: Runner, *parts: Any) -> Any:
        if runner is bad:
            msg = "the disk of a test is full"
            raise OSError(msg)
        return run(runner, *parts)

    monkeypatch.setattr(Runner, "_run", broken)
    fleet.push("trains", rows("trains", 50.0))
    until(lambda: bool(fleet.pool.failures()))
    before = good.commits.last
    fleet.push("trams", rows("trams", 50.0))
    until(lambda: good.commits.last > before)
    with pytest.raises(DeploymentError, match="the disk of a test is full"):
        fleet.check()


def test_a_watermark_that_closes_nothing_runs_no_plan(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices: the one that speaks moves its own mark only, so that nothing closes; then both have."""
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("here", "one")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    first, other = (fleet.device(name, site="here", streams=["trains"]) for name in ("t0", "t1"))
    fleet.submit(COUNTS.format("trains"), "q0")
    for device in (first, other):
        device.push(rows(device.id, 0.0))
    fleet.process_available()
    first.push(rows("t0", 1.0))
    fleet.process_available()
    ran = Counted(monkeypatch, plan_cache.Prepared, "run")
    jobs = fleet.spark.sparkContext.statusTracker()
    before, known = runner_of(fleet, "q0").commits.last, len(jobs.getJobIdsForGroup(None))
    first.close()  # a mark without rows
    fleet.process_available()
    assert runner_of(fleet, "q0").commits.last > before, "the mark was committed"
    assert ran.calls == []
    assert len(jobs.getJobIdsForGroup(None)) == known
    other.close()
    fleet.process_available()
    assert ran.calls, "now the window closes"
    assert [r["n"] for r in fleet.query("q0").results().collect()] == [3]
