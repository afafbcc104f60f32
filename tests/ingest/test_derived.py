"""Derived streams: rows are in the stream's source log as soon as the commit that made them is."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.ids import RegionId, StreamId
from godwit.ingest.derived import Publisher
from godwit.testing.topologies import line

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def begin(fleet: Fleet) -> None:
    fleet.topology.add(line(1))
    fleet.stream("readings", "device string, n int, ts timestamp", device="device")
    fleet.device("d0", site="s0", streams=["readings"])
    fleet.submit("INSERT INTO large SELECT n, ts FROM readings WHERE n > 1", "feed")
    fleet.process_available()


def test_results_are_rows_of_the_stream_on_commit(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    begin(fleet)
    log = fleet.gateway.log(RegionId("s0"), StreamId("large")).log
    before = log.last
    fleet.push("readings", [{"device": "d0", "n": n, "ts": START} for n in range(4)])
    (runner,) = fleet.pool.runners.values()
    assert runner.step() is not None  # one micro-batch, and nobody else does anything
    assert log.last == before + 1
    entry = log.newest()
    assert entry is not None
    assert entry["rows"] == {"query:feed": 2}


def test_nobody_who_pushes_waits_while_results_are_read(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    begin(fleet)
    read, free = Publisher._rows, list[bool]()

    def look(*arguments: Any) -> Any:
        other = threading.Thread(target=lambda: free.append(fleet.lock.acquire(timeout=5) and not fleet.lock.release()))
        other.start()
        other.join()
        return read(*arguments)

    monkeypatch.setattr(Publisher, "_rows", look)
    fleet.push("readings", [{"device": "d0", "n": 2, "ts": START}])
    fleet.process_available()
    assert free
    assert all(free)
