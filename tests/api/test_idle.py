"""An idle fleet: nobody polls. Threads sleep until they are woken, but for one slow look at the command log."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from godwit.api.control_loop import LOOK_EVERY
from godwit.api.fleet import Fleet
from godwit.storage.local import LocalDisk
from godwit.testing import Collected
from godwit.testing.topologies import line

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_sinks_supervisor_and_control_loop_leave_the_disk_alone(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    fleet.topology.add(line(2))
    fleet.stream("readings", "device string, n int, ts timestamp", device="device")
    device = fleet.device("d0", site="s0", streams=["readings"])
    sink = Collected()
    fleet.submit("SELECT n, ts FROM readings WHERE n > 0", "large").write_to(sink)
    fleet.start()
    device.push([{"n": 1, "ts": START}])
    sink.wait_for(1)
    fleet.process_available()
    calls = _counted(monkeypatch)
    time.sleep(1.0)
    seen = {name: count for name, count in calls.items() if name.startswith("godwit-")}
    assert not {name for name in seen if "sinks" in name or "supervisor" in name}, seen
    assert seen.get("godwit-control", 0) <= 2 * (1 / LOOK_EVERY + 1), seen  # whether there is a record; no reading
    device.push([{"n": 2, "ts": START}])  # and yet all of them are awake
    assert [row["n"] for row in sink.wait_for(2)] == [1, 2]


def _counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Calls of the disk from now on, by thread."""
    calls = Counter[str]()

    def counting(method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            calls[threading.current_thread().name] += 1
            return method(*arguments, **options)

        return call

    for name, method in vars(LocalDisk).items():
        if callable(method) and not name.startswith("_") and name != "path":
            monkeypatch.setattr(LocalDisk, name, counting(method))
    return calls
