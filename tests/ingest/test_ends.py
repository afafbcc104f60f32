"""Ends of sources are repeated for a query that begins later: of devices that are still there, and in one entry."""

from __future__ import annotations

import pytest

from godwit.ids import DeviceId, RegionId, SiteId, StreamId
from godwit.ingest.gateway import Gateway
from godwit.ingest.source_log import Schema
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Column, Stream
from godwit.storage.store import Store

#: a schema is parsed by Spark
pytestmark = pytest.mark.usefixtures("spark")
READINGS, EDGE = StreamId("readings"), RegionId("edge")
COLUMNS = (Column("device", "string"), Column("ts", "timestamp"))


def closed(devices: list[DeviceId]) -> tuple[Gateway, Deployment]:
    """Devices in one region, which have said that nothing more comes from them."""
    gateway = Gateway(Store.memory())
    gateway.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), [EDGE])
    at = dict.fromkeys(devices, SiteId("edge"))
    sites = {SiteId("edge"): EDGE}
    deployment = Deployment().apply(Delta(devices=at, sites=sites, feeds={READINGS: tuple(devices)}))
    gateway.follow(devices, deployment)
    for device in devices:
        gateway.close(device, deployment)
    return gateway, deployment


def test_a_query_hears_of_all_that_have_ended_in_one_entry() -> None:
    devices = [DeviceId(f"d{k}") for k in range(50)]
    gateway, deployment = closed(devices)
    log = gateway.log(EDGE, READINGS).log
    before = log.last
    gateway.repeat_ends([READINGS], deployment)
    assert log.last == before + 1
    record = log.newest()
    assert record is not None
    assert set(record["marks"]) == set(devices)


def test_devices_that_are_gone_cost_later_queries_nothing() -> None:
    devices = [DeviceId(f"d{k}") for k in range(50)]
    gateway, deployment = closed(devices)
    deployment = deployment.apply(Delta(gone=frozenset(devices)))
    before = gateway.log(EDGE, READINGS).log.last
    for _ in range(20):
        gateway.repeat_ends([READINGS], deployment)
    assert gateway.log(EDGE, READINGS).log.last == before
