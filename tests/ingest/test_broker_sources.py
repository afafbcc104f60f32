"""Real brokers as sources: every row once, though messages come again; hand-overs by topic and by position."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks import NatsSink
from godwit.errors import ConfigError, SourceError
from godwit.ids import DeviceId, SiteId
from godwit.ingest.sources import KafkaSource, MqttSource, NatsSource, PositionColumns
from godwit.ingest.sources.broker_source import BrokerSource
from godwit.ingest.sources.intake import Intake, Message
from godwit.ingest.sources.mqtt import TopicPattern
from tests import servers

TOPOLOGY = """
sites:
  - {id: west, region: edge-west, lat: 52.0, lon: 13.0}
  - {id: east, region: edge-east, lat: 52.0, lon: 14.0}
  - {id: cloud, region: cloud}
links: [{from: west, to: cloud}, {from: east, to: cloud}]
"""
#: (site, device, number)
Sent = tuple[str, str, int]


def body(device: str, number: int) -> bytes:
    return json.dumps({"train": device, "boarded": number, "ts": f"2026-01-01T00:00:{number:02d}Z"}).encode()


@contextmanager
def mqtt(folder: Path) -> Iterator[tuple[Callable[[Fleet], BrokerSource[Any]], Callable[[list[Sent]], None]]]:
    paho = pytest.importorskip("paho.mqtt.client")
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    with servers.mosquitto(folder) as port:

        def send(messages: list[Sent]) -> None:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
            client.connect("127.0.0.1", port)
            client.loop_start()
            for site, device, number in messages:
                told = Properties(PacketTypes.PUBLISH)
                told.UserProperty = ("sequence", str(number + 1))
                topic = f"fleet/{site}/{device}/passengers"
                client.publish(topic, body(device, number), qos=1, properties=told).wait_for_publish(20)
            client.disconnect()
            client.loop_stop()

        yield lambda fleet: MqttSource(fleet, "127.0.0.1", "fleet/{site}/{device}/{stream}", port=port), send


@contextmanager
def nats(folder: Path) -> Iterator[tuple[Callable[[Fleet], BrokerSource[Any]], Callable[[list[Sent]], None]]]:
    client = pytest.importorskip("nats")
    with servers.nats_server(folder) as address:

        async def publish(messages: list[Sent]) -> None:
            connection = await client.connect(address)
            js = connection.jetstream()
            await js.add_stream(name="FLEET", subjects=["fleet.>"])
            for site, device, number in messages:
                await js.publish(f"fleet.{site}.{device}.passengers", body(device, number))
            await connection.close()

        yield (
            lambda fleet: NatsSource(fleet, address, "fleet.{site}.{device}.{stream}"),
            lambda messages: asyncio.run(publish(messages)),
        )


@contextmanager
def kafka(folder: Path) -> Iterator[tuple[Callable[[Fleet], BrokerSource[Any]], Callable[[list[Sent]], None]]]:
    confluent = pytest.importorskip("confluent_kafka")
    with servers.kafka(folder) as address:

        def send(messages: list[Sent]) -> None:
            producer = confluent.Producer({"bootstrap.servers": address})
            for site, device, number in messages:
                producer.produce("fleet", body(device, number), key=device, headers={"site": site})
            assert producer.flush(20) == 0

        yield lambda fleet: KafkaSource(fleet, address, "fleet", "passengers"), send


@pytest.mark.parametrize("broker", [mqtt, nats, pytest.param(kafka, marks=pytest.mark.full)])
def test_every_row_comes_once_and_another_sites_topic_is_a_hand_over(
    broker: Any, open_fleet: Callable[..., Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    fleet.topology.load(TOPOLOGY)
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    query = fleet.submit("SELECT train, boarded, ts FROM passengers", "all")
    fleet.start()
    sent = [("west", f"t{d}", n) for n in range(10) for d in (1, 2)]
    sent += [("east", "t1", n) for n in range(10, 20)]
    with broker(tmp_path / "broker") as (make, send):
        source = make(fleet)
        acknowledged: list[Any] = []
        acknowledge, failures = source._acknowledge, iter([OSError("lost"), OSError("lost")])

        def lossy(told: Any) -> None:
            for failure in failures:
                raise failure
            acknowledge(told)
            acknowledged.extend(told)

        monkeypatch.setattr(source, "_acknowledge", lossy)
        fleet.follow(source)
        if isinstance(source, MqttSource):
            assert source.subscribed.wait(20)
        send(sent)
        assert servers.until(lambda: source.rows >= len(sent) and len(acknowledged) >= len(sent))
        source.stop()
    fleet.process_available()
    rows = [(row.train, row.boarded) for row in query.results().collect()]
    assert sorted(rows) == sorted((device, number) for _, device, number in sent)
    assert fleet.deployment.devices == {DeviceId("t1"): SiteId("east"), DeviceId("t2"): SiteId("west")}
    assert fleet.dead_letters() == []
    assert query.verdict().equal


def test_positions_move_devices_and_bad_messages_are_dead_letters(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.load(TOPOLOGY)
    fleet.stream("positions", "train string, lat double, lon double, ts timestamp", device="train")
    intake = Intake(fleet, "test", positions=PositionColumns(hysteresis_m=5_000))

    def at(lon: float, number: int, device: str = "t1") -> Message:
        row = {"train": device, "lat": 52.0, "lon": lon, "ts": f"2026-01-01T00:00:{number:02d}Z"}
        return Message("positions", json.dumps(row).encode(), sequence=number)

    where = []
    for number, lon in enumerate((13.1, 13.49, 13.51, 13.6, 13.9, 13.49, 13.4), 1):
        intake.take([at(lon, number)])
        where.append(fleet.plane.topology.devices[DeviceId("t1")].site)
    assert where == ["west", "west", "west", "east", "east", "east", "west"]
    assert intake.rows == 7
    intake.take([at(13.4, 7), at(13.4, 7)])  # known
    assert intake.rows == 7
    intake.take([Message("positions", b"[1,"), Message("nothing", b"{}"), Message("positions", b"{}"), at(13.3, 8)])
    assert intake.rows == 8
    reasons = [letter["reason"] for letter in fleet.dead_letters()]
    assert len(reasons) == 3
    assert any("is not JSON" in reason for reason in reasons)
    assert any("no stream 'nothing'" in reason for reason in reasons)


AWAY: dict[str, Callable[[Fleet], BrokerSource[Any]]] = {
    "mqtt://127.0.0.1:1, fleet/{device}": lambda fleet: MqttSource(
        fleet, "127.0.0.1", "fleet/{device}", port=1, stream="passengers"
    ),
    "nats://127.0.0.1:1, fleet.{device}": lambda fleet: NatsSource(
        fleet, "nats://user:secret@127.0.0.1:1", "fleet.{device}", stream="passengers"
    ),
    "kafka://127.0.0.1:1, topic": lambda fleet: KafkaSource(fleet, "127.0.0.1:1", "topic", "passengers"),
}


@pytest.mark.parametrize("address", AWAY)
def test_a_broker_that_is_away_is_told_by_its_address_on_one_line(
    open_fleet: Callable[..., Fleet], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Kafka's client says nothing of it to who subscribes, and NATS's would log each attempt with its stack."""
    monkeypatch.setattr("godwit.ingest.sources.kafka.PATIENCE", 0.5)
    source = AWAY[address](open_fleet())
    source.start()
    try:
        assert servers.until(lambda: source.failure, 20)
        with pytest.raises(SourceError) as told:
            source.check()
    finally:
        source.stop()
    assert f"({address}) cannot be read: " in str(told.value)
    said = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert {record.name for record in said} == {"godwit.ingest.sources.broker_source"}
    assert all(f"({address})" in record.message and "secret" not in record.message for record in said)
    assert not any("\n" in record.message or record.exc_info for record in said)


def test_an_option_that_librdkafka_has_not_is_refused_at_once(open_fleet: Callable[..., Fleet]) -> None:
    with pytest.raises(ConfigError, match=r"kafka topic 't': No such configuration property: \"fetch.max.byte\""):
        KafkaSource(open_fleet(), "127.0.0.1:1", "t", "s", options={"fetch.max.byte": "1"})


def test_tls_is_not_left_out_though_a_server_wants_none(open_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """The password would go over the network as it is."""
    with servers.nats_server(tmp_path / "nats") as address:
        secret = address.replace("nats://", "tls://user:secret@")
        with pytest.raises(ConfigError, match="offers no TLS"):
            asyncio.run(NatsSource(open_fleet(), secret, "fleet.{device}", stream="passengers")._connect())
        with pytest.raises(ConfigError, match="offers no TLS"):
            asyncio.run(NatsSink(secret, "results")._connect())


def test_a_nats_stream_that_is_missing_is_told_with_the_remedy(
    open_fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    with servers.nats_server(tmp_path / "nats") as address:
        source = NatsSource(open_fleet(), address, "fleet.{device}", stream="passengers")
        source.start()
        try:
            assert servers.until(lambda: source.failure, 20)
            with pytest.raises(SourceError, match=r"no JetStream stream has the subject fleet.\*; make one"):
                source.check()
        finally:
            source.stop()


def test_a_repeat_from_the_site_before_is_no_hand_over(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.load(TOPOLOGY)
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    intake = Intake(fleet)
    told = [Message("passengers", body("t1", n), "t1", site, n) for n, site in ((1, "west"), (2, "west"), (3, "east"))]
    intake.take(told)
    epoch = fleet.deployment.epoch
    intake.take(told)
    assert intake.rows == 3
    assert fleet.deployment.epoch == epoch
    assert fleet.plane.topology.devices[DeviceId("t1")].site == "east"


@pytest.mark.parametrize("text", ["", "a/{b}", "{stream}/{stream}", "a{device}"])
def test_a_topic_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="topic"):
        TopicPattern(text)


def test_a_topic_names_stream_device_and_site() -> None:
    pattern = TopicPattern("fleet/{site}/+/{device}/{stream}/#")
    assert pattern.subscription == "fleet/+/+/+/+/#"
    assert pattern.read("fleet/west/x/t1/doors/a/b") == {"site": "west", "device": "t1", "stream": "doors"}
    assert pattern.read("fleet/west/t1") is None
