"""Devices that are away when something happens: queries that begin meanwhile, and restarts, go on with them later."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.api.handles import DeviceHandle
from godwit.control.commands import ChangeTopology
from godwit.ids import DeviceId
from godwit.ingest.source_log import SourceLog
from godwit.model.changes import DeviceMoved
from godwit.model.topology import Link, Site, Topology
from godwit.storage.command_log import CommandLog
from tests.waiting import until

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COUNTS = "SELECT train, count(*) AS n, window.end AS until FROM trains GROUP BY train, window(ts, '2 seconds')"


def ground(fleet: Fleet) -> DeviceHandle:
    sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "centre", kind="cloud")]
    fleet.topology.add(Topology.of(sites, [Link("west", "cloud"), Link("east", "cloud")]))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    return fleet.device("t0", site="west", streams=["trains"])


def rows(second: int) -> list[dict[str, Any]]:
    return [{"train": "t0", "n": second, "ts": START + dt.timedelta(seconds=second, milliseconds=i)} for i in range(3)]


def windows(fleet: Fleet) -> list[int]:
    return sorted(row["n"] for row in fleet.query("q").results().collect())


@pytest.mark.parametrize("sent", [True, False], ids=["has sent rows", "has sent none"])
@pytest.mark.parametrize("restart", [True, False], ids=["restart", "no restart"])
def test_a_query_that_begins_while_a_device_is_away_sees_it_come_back_elsewhere(
    open_fleet: OpenFleet, sent: bool, restart: bool
) -> None:
    fleet = open_fleet()
    train = ground(fleet)
    if sent:
        train.push(rows(0))
    train.detach()
    fleet.submit(COUNTS, "q")
    fleet.process_available()
    if restart:
        fleet.stop()
        fleet = open_fleet()
        train = fleet.device("t0")
    train.attach("east")
    for second in range(1, 6):
        train.push(rows(second))
    fleet.process_available()
    assert windows(fleet) == [3, 6]  # [0, 2) and [2, 4): time goes on, though nobody ended anything
    train.detach()
    train.attach("west")
    for second in range(6, 10):
        train.push(rows(second))
    fleet.process_available()
    assert windows(fleet) == [3, 6, 6, 6]
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q").verdict().equal


@pytest.mark.parametrize("sent", [True, False], ids=["has sent rows", "has sent none"])
def test_a_device_that_changed_region_just_before_the_process_died_begins_a_new_session(
    open_fleet: OpenFleet, sent: bool
) -> None:
    """The command was written, no epoch was published: what it had sent is still to be read before what it sends."""
    fleet = open_fleet()
    train = ground(fleet)
    fleet.submit(COUNTS, "q")
    fleet.process_available()
    if sent:
        train.push(rows(0))
    session = fleet.deployment.sessions.get("t0", 1)  # type: ignore[call-overload]
    fleet.stop()
    CommandLog(fleet.store).append(ChangeTopology((DeviceMoved("t0", "east"),)))  # type: ignore[arg-type]
    fleet = open_fleet()
    assert fleet.deployment.sessions["t0"] > session  # type: ignore[index]
    train = fleet.device("t0")
    for second in range(1, 6):
        train.push(rows(second))
    fleet.process_available()
    assert windows(fleet) == ([6, 6] if sent else [3, 6])
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q").verdict().equal


def test_a_device_that_never_attaches_holds_no_window_open(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    train = ground(fleet)
    fleet.device("t1", streams=["trains"])
    fleet.submit(COUNTS, "q")
    for second in range(5):
        train.push(rows(second))
    fleet.process_available()
    assert windows(fleet) == [6, 6]


def test_the_first_device_of_a_stream_may_come_after_the_query(open_fleet: OpenFleet) -> None:
    """Nothing is known of its time before: none of its rows is late."""
    fleet = open_fleet()
    ground(fleet)
    fleet.stream("buses", "bus string, ts timestamp", device="bus")
    bus = fleet.device("b0", streams=["buses"])
    sql = "SELECT bus, count(*) AS n, window.end AS at FROM buses GROUP BY bus, window(ts, '2 seconds')"
    query = fleet.submit(sql, "q")
    fleet.process_available()
    bus.attach("west")
    for second in (0, 5):
        bus.push([{"bus": "b0", "ts": START + dt.timedelta(seconds=second)}])
        fleet.process_available()
    assert windows(fleet) == [1]
    fleet.close_sources()
    fleet.process_available()
    assert windows(fleet) == [1, 1]
    assert query.verdict().equal


def test_a_session_whose_end_a_full_disk_did_not_take_ends_when_there_is_room(
    open_fleet: OpenFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its end everybody would wait for the session for ever."""
    fleet = open_fleet()
    train, append, full = ground(fleet), SourceLog.append, [True]
    fleet.submit(COUNTS, "q")
    train.push(rows(0))
    fleet.start()

    def appended(log: SourceLog, table: Any, marks: Any, *more: Any, **options: Any) -> Any:
        if full and any(mark.over for mark in marks.values()):
            raise OSError(errno.ENOSPC, "no space left on device")
        return append(log, table, marks, *more, **options)

    monkeypatch.setattr(SourceLog, "append", appended)
    train.attach("east")
    until(lambda: fleet.deployment.devices[DeviceId("t0")] == "east")  # (until then its rows still go to the west)
    with pytest.raises(OSError, match="no space"):
        train.push(rows(1))
    full.clear()
    for second in range(1, 6):
        train.push(rows(second))
    until(lambda: windows(fleet) == [6, 6])  # [0, 2) and [2, 4)
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("q").verdict().equal
