"""A device that is silent for too long no longer holds windows open, and nothing else has to happen for it (B9)."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

from godwit.api.fleet import Fleet
from godwit.model.topology import Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COUNTS = "SELECT count(*) AS n, window.end AS until FROM trains GROUP BY window(ts, '2 seconds')"


def row(train: str, second: int) -> list[dict[str, Any]]:
    return [{"train": train, "n": second, "ts": START + dt.timedelta(seconds=second)}]


def test_a_window_closes_when_the_silent_device_becomes_idle(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("here", "one")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train", idle="5 seconds")
    talks, silent = (fleet.device(name, site="here", streams=["trains"]) for name in ("t0", "t1"))
    fleet.submit(COUNTS, "q")
    silent.push(row("t1", 0))
    talks.push(row("t0", 0))
    fleet.process_available()
    pushed = time.time()
    time.sleep(0.5)
    talks.push(row("t0", 9))  # this one is not silent for long enough when the other one is
    fleet.process_available()
    assert fleet.query("q").results().count() == 0
    (runner,) = fleet.pool.runners.values()
    assert not runner.waiting()
    time.sleep(max(pushed + 5.1 - time.time(), 0.0))
    assert runner.waiting(), "no row, mark or epoch has come: it is time that passed"
    fleet.process_available()
    assert [r["n"] for r in fleet.query("q").results().collect()] == [2]
    assert not runner.waiting(), "said once"
