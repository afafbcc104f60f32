"""Duties fail alone: with a pause before the next attempt, a reason in the status, and nobody else held up."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.maintenance.duties import FIRST_PAUSE, LONGEST_PAUSE, Attempts, Duty
from godwit.model.topology import Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_pauses_grow_up_to_the_longest_and_end_with_a_success() -> None:
    attempts, now, pauses = Attempts(), 0.0, []
    for _ in range(12):
        attempts.failed(ValueError(), now)
        assert not attempts.due(now)
        pauses.append(attempts.not_before - now)
        now = attempts.not_before
        assert attempts.due(now)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    attempts.succeeded()
    assert attempts.due(0.0)
    assert attempts.failure is None


def test_a_duty_waits_for_its_next_attempt() -> None:
    clock, done, put_right = [0.0], [], []

    def do() -> None:
        done.append(clock[0])
        if len(done) < 3:
            msg = "not yet"
            raise ValueError(msg)

    duty = Duty("d", do, lambda: put_right.append(clock[0]), lambda: clock[0])
    for moment in (0.0, 0.1, 0.5, 0.6, 1.5, 1.6):
        clock[0] = moment
        duty.run()
    assert done == [0.0, 0.5, 1.5, 1.6]
    assert put_right == [0.0, 0.5]
    assert duty.attempts.failure is None


@pytest.mark.parametrize("broken", ["housekeeping", "re-optimiser", "admission", "copies of the control log"])
def test_whatever_fails_in_the_background_results_go_on(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """One duty is out of order while the fleet runs; a sink still gets every result, and the status says why."""
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))
    fleet.stream("s", "n int, ts timestamp", site="west")
    taken: list[Any] = []
    query = fleet.submit("SELECT n, ts FROM s", "q")
    query.write_to(CallbackSink(lambda rows: taken.extend(rows), name="taken"))

    def fail(*_: Any) -> None:
        msg = "no room"
        raise OSError(msg)

    owner, name = {
        "housekeeping": (fleet.supervisor.housekeeper, "behind"),
        "re-optimiser": (fleet.reoptimiser, "look_if_due"),
        "admission": (fleet.admission, "look_if_due"),
        "copies of the control log": (fleet, "keep_copies"),
    }[broken]
    monkeypatch.setattr(owner, name, fail)
    fleet.start()
    until = time.monotonic() + 30
    while broken not in fleet.supervisor.failures() and time.monotonic() < until:
        time.sleep(0.05)
    fleet.push("s", [{"n": 1, "ts": START}])
    while not taken and time.monotonic() < until:
        time.sleep(0.05)
    assert [row["n"] for row in taken] == [1]
    assert "no room" in fleet.status().failures[broken]
    monkeypatch.undo()
    while fleet.supervisor.failures() and time.monotonic() < until:
        time.sleep(0.05)
    assert fleet.supervisor.failures() == {}


def test_a_sink_that_recovers_goes_on_where_it_was(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))
    fleet.stream("s", "n int, ts timestamp", site="west")
    taken: list[int] = []
    full = [True]

    def take(rows: list[dict[str, Any]]) -> None:
        if full[0]:
            msg = "no room"
            raise OSError(msg)
        taken.extend(row["n"] for row in rows)

    query = fleet.submit("SELECT n, ts FROM s", "q")
    delivery = query.write_to(CallbackSink(take, name="full"))
    fleet.push("s", [{"n": 1, "ts": START}])
    fleet.process_available()
    assert "no room" in str(delivery.failure)
    full[0] = False
    until = time.monotonic() + 10
    while delivery.failure is not None and time.monotonic() < until:
        time.sleep(0.05)
        delivery.pump()
    assert taken == [1]
    fleet.check()
