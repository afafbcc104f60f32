"""Ends of sources are repeated for a query that begins later, in one entry, until a device that left is forgotten."""

from __future__ import annotations

import pytest

from godwit.ids import DeviceId, RegionId, SiteId, StreamId
from godwit.ingest.gateway import Gateway
from godwit.ingest.source_log import Schema
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Column, Stream
from godwit.protocol.watermarks import NEVER, Mark
from godwit.storage.faulty import DiskFault, FaultyDisk
from godwit.storage.memory import MemoryDisk
from godwit.storage.store import Store

#: a schema is parsed by Spark
pytestmark = pytest.mark.usefixtures("spark")
READINGS, EDGE = StreamId("readings"), RegionId("edge")
COLUMNS = (Column("device", "string"), Column("ts", "timestamp"))


def closed(devices: list[DeviceId]) -> tuple[Gateway, Deployment]:
    """Devices in one region, which have said that nothing more comes from them."""
    gateway = Gateway(Store.memory())
    at = dict.fromkeys(devices, SiteId("edge"))
    sites = {SiteId("edge"): EDGE}
    deployment = Deployment().apply(Delta(devices=at, sites=sites, feeds={READINGS: tuple(devices)}))
    gateway.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), deployment)
    gateway.sessions.follow(devices, deployment)
    for device in devices:
        gateway.close(device, deployment)
    return gateway, deployment


def test_a_query_hears_of_all_that_have_ended_in_one_entry() -> None:
    devices = [DeviceId(f"d{k}") for k in range(50)]
    gateway, deployment = closed(devices)
    log = gateway.log(EDGE, READINGS).log
    before = log.last
    gateway.sessions.repeat_ends([READINGS], deployment)
    assert log.last == before + 1
    record = log.newest()
    assert record is not None
    assert set(record["marks"]) == set(devices)


def test_devices_that_are_gone_and_forgotten_cost_later_queries_nothing() -> None:
    devices = [DeviceId(f"d{k}") for k in range(50)]
    gateway, deployment = closed(devices)
    for device in devices:
        gateway.sessions.leave(device, deployment)
    assert gateway.sessions.left_at(devices[7]) == {(EDGE, READINGS): gateway.log(EDGE, READINGS).log.last - 42}
    gateway.forget(devices)
    assert not gateway.meter._flows
    deployment = deployment.apply(Delta(gone=frozenset(devices), forgotten=frozenset(devices)))
    before = gateway.log(EDGE, READINGS).log.last
    for _ in range(20):
        gateway.sessions.repeat_ends([READINGS], deployment)
    assert gateway.log(EDGE, READINGS).log.last == before


def test_a_device_that_left_begins_anew_also_after_a_restart() -> None:
    gateway, deployment = closed([DeviceId("d")])
    gateway.sessions.leave(DeviceId("d"), deployment)
    gone = deployment.apply(Delta(gone=frozenset({DeviceId("d")})))
    again = Gateway(gateway.store)
    again.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), gone)
    assert again.sessions.left_at(DeviceId("d")) == gateway.sessions.left_at(DeviceId("d"))
    back = gone.apply(Delta(devices={DeviceId("d"): SiteId("edge")}, sessions={DeviceId("d"): 7}))
    again.sessions.follow([DeviceId("d")], back)
    mark = again.source(READINGS, DeviceId("d")).mark
    assert (mark.session, mark.clock, mark.closed) == (7, NEVER, False)
    forgotten = gone.apply(Delta(forgotten=frozenset({DeviceId("d")})))
    later = Gateway(gateway.store)
    later.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), forgotten)
    assert later.sessions.left_at(DeviceId("d")) == {}


def test_a_session_whose_end_could_not_be_written_ends_with_the_next_try() -> None:
    """A full disk while a device moves on: without the end, everybody would wait for its session for ever."""
    faults = [DiskFault("append", "full", nth=2)]
    gateway, west = Gateway(Store(FaultyDisk(MemoryDisk(), faults)), only=EDGE), {DeviceId("d"): SiteId("edge")}
    sites = {SiteId("edge"): EDGE, SiteId("far"): RegionId("far")}
    here = Deployment().apply(Delta(devices=west, sites=sites, feeds={READINGS: (DeviceId("d"),)}))
    gateway.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), here)
    gateway.sessions.follow([DeviceId("d")], here)
    gateway.tell(READINGS, {DeviceId("d"): 5}, here)
    there = here.apply(Delta(devices={DeviceId("d"): SiteId("far")}, sessions={DeviceId("d"): 7}))
    with pytest.raises(OSError, match="space left"):
        gateway.sessions.follow([DeviceId("d")], there)
    gateway.sessions.follow([DeviceId("d")], there)
    gateway.sessions.follow([DeviceId("d")], there)  # once is enough
    marks = [record["marks"]["d"] for _, record in gateway.log(EDGE, READINGS).log.after(0)]
    assert [Mark.from_json(mark) for mark in marks] == [Mark(1, 5), Mark(1, 5, over=True, following=7)]
