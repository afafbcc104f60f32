"""Pushes: rows are converted without a lock, go to their regions with their marks, and few rows as many do."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.errors import NotAttachedError, SourceError
from godwit.ids import DeviceId, RegionId, SiteId, StreamId
from godwit.ingest import source_log
from godwit.ingest.gateway import Gateway
from godwit.ingest.schema import Schema
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Column, Stream
from godwit.protocol.watermarks import Mark
from godwit.storage.store import Store
from godwit.testing.topologies import line

READINGS = StreamId("readings")
COLUMNS = (Column("device", "string"), Column("n", "int"), Column("ts", "timestamp"))
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
REGIONS = [RegionId(f"r{k}") for k in range(3)]


@pytest.fixture
def opened(spark: object) -> tuple[Gateway, Deployment]:
    """Six devices in three regions."""
    gateway = Gateway(Store.memory())
    devices = [DeviceId(f"d{k}") for k in range(6)]
    at = {device: SiteId(f"s{k % 3}") for k, device in enumerate(devices)}
    sites = {SiteId(f"s{k}"): region for k, region in enumerate(REGIONS)}
    deployment = Deployment().apply(Delta(devices=at, sites=sites, feeds={READINGS: tuple(devices)}))
    gateway.declare(Schema(Stream(READINGS, COLUMNS, "ts", "device")), deployment)
    gateway.sessions.follow(devices, deployment)
    return gateway, deployment


def rows(*devices: str) -> list[dict[str, Any]]:
    return [{"device": name, "n": k, "ts": START + dt.timedelta(seconds=k)} for k, name in enumerate(devices)]


def entries(gateway: Gateway, region: RegionId) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Of each entry with rows: how many rows of whom, and how far each device has come (seconds)."""
    records = [record for _, record in gateway.log(region, READINGS).log.after(0) if record["rows"]]
    start = int(START.timestamp())
    return [
        (record["rows"], {name: Mark.from_json(m).clock // 10**6 - start for name, m in record["marks"].items()})
        for record in records
    ]


@pytest.mark.parametrize("few", [500, 0])
def test_rows_of_many_devices_go_to_their_regions_with_their_marks(
    opened: tuple[Gateway, Deployment], monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(source_log, "FEW", few)
    gateway, deployment = opened
    pushed = gateway.conform(READINGS, rows("d0", "d1", "d3", "d0", "d4", "d0"), None)
    assert gateway.push(READINGS, pushed, deployment, None, None)
    assert entries(gateway, REGIONS[0]) == [({"d0": 3, "d3": 1}, {"d0": 5, "d3": 2})]
    assert entries(gateway, REGIONS[1]) == [({"d1": 1, "d4": 1}, {"d1": 1, "d4": 4})]
    assert entries(gateway, REGIONS[2]) == []


def test_a_device_nobody_knows_takes_the_whole_push_with_it(opened: tuple[Gateway, Deployment]) -> None:
    gateway, deployment = opened
    with pytest.raises(NotAttachedError, match="d9"):
        gateway.push(READINGS, gateway.conform(READINGS, rows("d0", "d9"), None), deployment, None, None)
    assert entries(gateway, REGIONS[0]) == []


def test_a_device_that_was_detached_sends_nothing_though_the_epoch_is_on_its_way(
    opened: tuple[Gateway, Deployment],
) -> None:
    gateway, deployment = opened
    gateway.attached = lambda device: False if device == "d0" else None
    with pytest.raises(NotAttachedError, match="d0"):
        gateway.push(READINGS, gateway.conform(READINGS, rows("d0"), None), deployment, None, None)
    assert gateway.push(READINGS, gateway.conform(READINGS, rows("d3"), None), deployment, None, None)
    assert entries(gateway, REGIONS[0]) == [({"d3": 1}, {"d3": 0})]


def test_a_sequence_number_comes_through_once(opened: tuple[Gateway, Deployment]) -> None:
    gateway, deployment = opened
    pushed = gateway.conform(READINGS, rows("d0"), DeviceId("d0"))
    assert [gateway.push(READINGS, pushed, deployment, DeviceId("d0"), n) for n in (1, 2, 2, 1, 3)] == [
        True, True, False, False, True,
    ]  # fmt: skip
    with pytest.raises(SourceError, match="needs a sender"):
        gateway.push(READINGS, pushed, deployment, None, 4)
    with pytest.raises(SourceError, match="no stream 'other'"):
        gateway.is_known(StreamId("other"), DeviceId("d0"), 1)


def test_rows_are_converted_while_others_hold_the_lock(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    fleet.topology.add(line(1))
    fleet.stream("readings", "device string, n int, ts timestamp", device="device")
    device = fleet.device("d0", site="s0", streams=["readings"])
    converted, conform = threading.Event(), Schema.conform

    def told(self: Schema, *arguments: Any) -> Any:
        found = conform(self, *arguments)
        converted.set()
        return found

    monkeypatch.setattr(Schema, "conform", told)
    pushing = threading.Thread(target=lambda: device.push(rows("d0")), daemon=True)
    with fleet.lock:
        pushing.start()
        assert converted.wait(30)
        assert pushing.is_alive()  # its entry waits
    pushing.join(30)
    assert not pushing.is_alive()


def test_a_generator_is_read_once_also_where_the_push_must_wait(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(line(1))
    fleet.stream("readings", "device string, n int, ts timestamp", device="device")
    fleet.device("d0", site="s0", streams=["readings"])
    assert fleet.push("readings", (row for row in rows("d0", "d0")))
    assert fleet.push("readings", pa.Table.from_pylist(rows("d0")))
    assert fleet.gateway.log(RegionId("s0"), READINGS).log.last >= 2


def test_batches_that_are_sent_again_with_more_are_one_entry_of_what_is_new(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(line(1))
    fleet.stream("trips", "device string, n int, ts timestamp", device="device")
    fleet.device("d0", site="s0", streams=["trips"])
    batches = [(number, [{"device": "d0", "n": number, "ts": START}]) for number in range(1, 7)]
    device = DeviceId("d0")
    assert [fleet.push_many("trips", part, device) for part in (batches[:3], batches[1:], batches)] == [3, 3, 0]
    with fleet.pipeline() as pipeline:
        for number in range(5, 9):  # two of them are known
            pipeline.push("trips", [{"device": "d0", "n": number, "ts": START}], device="d0", sequence=number)
        pipeline.push("trips", [{"device": "d0", "n": "nine", "ts": START}], device="d0", sequence=9)
    (letter,) = pipeline.dead
    assert "nine" in str(letter)
    assert [one["reason"] for one in fleet.dead_letters()] == [letter["reason"]]
    records = [
        record for _, record in fleet.gateway.log(fleet.deployment.sites[SiteId("s0")], StreamId("trips")).log.after(0)
    ]
    assert sum(record["rows"].get("d0", 0) for record in records) == 8
    assert [record["sequence"]["d0"] for record in records if record["sequence"]][:2] == [3, 6]
