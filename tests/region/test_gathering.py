"""Rows of windows gather in a running fleet; nobody who waits for something waits longer."""

from __future__ import annotations

import time
from collections.abc import Callable

from godwit.api.fleet import Fleet
from godwit.model.topology import Link, Site, Topology
from godwit.protocol.gathering import Gathering, Patience
from godwit.region.runner import Limits, Runner
from tests.region.test_loop import COUNTS, FILTER, fleet_of, rows, runner_of, warm
from tests.waiting import until

#: longer than any test
FOR_EVER = Limits(patience=Patience(seconds=3600.0, shapes=1))


def at_rest(runner: Runner) -> bool:
    """Nothing is there, or it gathers. (What the loop's own thread keeps of it is left alone.)"""
    found = Gathering(runner.region, runner.shape, runner.reader, FOR_EVER.patience).until(runner.kernel, 0.0)
    return not runner.stepping and (not runner.waiting() or found is not None)


def test_rows_of_a_window_gather_until_one_ends(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, COUNTS.format("trains"), FILTER.format("trains"), limits=FOR_EVER)
    warm(fleet, ("trains",))
    window, every = runner_of(fleet, "q0"), runner_of(fleet, "q1")
    before, known = window.commits.last, fleet.query("q0").results().count()
    for step in range(10):
        there = every.commits.last
        fleet.push("trains", rows("trains", 40.0 + step / 10))
        until(lambda there=there: every.commits.last > there)  # type: ignore[misc]  # (this one answers each row)
    fleet.push("trains", rows("trains", 41.9))
    until(lambda: at_rest(window))
    assert window.commits.last - before <= 1, "but for the window that ends with the first of them"
    fleet.push("trains", rows("trains", 42.0))
    until(lambda: fleet.query("q0").results().count() >= known + 2, seconds=20.0)
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q0").verdict().equal
    assert fleet.query("q1").verdict().equal


def test_whoever_waits_in_another_process_says_so_for_a_while(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, COUNTS.format("trains"), limits=FOR_EVER)
    warm(fleet, ("trains",))
    window = runner_of(fleet, "q0")
    fleet.push("trains", rows("trains", 40.0))
    fleet.process_available()
    for _ in range(2):
        before = window.commits.last
        fleet.push("trains", rows("trains", 40.5))
        until(lambda: at_rest(window))
        assert window.commits.last == before
        fleet.pool.press_until(time.time() + 0.2)
        until(lambda before=before: window.commits.last == before + 1)  # type: ignore[misc]
        time.sleep(0.2)  # (until then nothing gathers)


def test_where_few_shapes_run_every_push_is_read(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, COUNTS.format("trains"), limits=Limits(patience=Patience(seconds=3600.0, shapes=2)))
    warm(fleet, ("trains",))
    window = runner_of(fleet, "q0")
    for step in range(3):
        there = window.commits.last
        fleet.push("trains", rows("trains", 40.0 + step / 10))
        until(lambda there=there: window.commits.last > there)  # type: ignore[misc]


def test_whoever_waits_for_everything_does_not_wait_for_more(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, COUNTS.format("trains"), limits=FOR_EVER)
    warm(fleet, ("trains",))
    window = runner_of(fleet, "q0")
    fleet.push("trains", rows("trains", 40.0))
    fleet.process_available()
    before = window.commits.last
    fleet.push("trains", rows("trains", 40.5))
    assert window.waiting()
    fleet.process_available(timeout=20.0)
    assert window.commits.last == before + 1
    assert not window.waiting()


def test_rows_are_read_when_they_have_gathered_for_long_enough(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet, COUNTS.format("trains"), limits=Limits(patience=Patience(seconds=0.3, shapes=1)))
    warm(fleet, ("trains",))
    window = runner_of(fleet, "q0")
    fleet.push("trains", rows("trains", 40.0))
    fleet.process_available()
    before, began = window.commits.last, time.monotonic()
    fleet.push("trains", rows("trains", 40.5))
    until(lambda: window.commits.last > before, seconds=20.0)
    assert time.monotonic() - began >= 0.3


def test_a_window_elsewhere_closes_as_soon_as_the_slowest_source_has_passed_its_end(
    open_fleet: Callable[..., Fleet],
) -> None:
    """Devices in two regions, the window in a third: what they send travels only when it lets the window go."""
    fleet = open_fleet(limits=FOR_EVER)
    sites = [Site("c", "cloud"), Site("a", "west"), Site("b", "east")]
    fleet.topology.add(Topology.of(sites, [Link("a", "c"), Link("b", "c")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    for train, site in (("t0", "a"), ("t1", "b")):
        fleet.device(train, site=site, streams=["trains"])
    fleet.submit(COUNTS.format("trains"), "q0")
    fleet.start()
    for second in range(4):
        fleet.push("trains", [*rows("t0", 10.0 * second), *rows("t1", 10.0 * second)])
        fleet.process_available()
    known = fleet.query("q0").results().count()
    before = fleet.pool.committed()
    for step in range(1, 10):
        fleet.push("trains", [*rows("t0", 30.0 + step / 10), *rows("t1", 30.0 + step / 10)])
    fleet.push("trains", rows("t0", 33.0))
    runners = list(fleet.pool.runners.values())
    until(lambda: all(map(at_rest, runners)))
    assert fleet.pool.committed() - before <= 2, "t0's mark at most, which may let a window go"
    fleet.push("trains", rows("t1", 33.0))
    until(lambda: fleet.query("q0").results().count() > known, seconds=20.0)
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q0").verdict().equal
