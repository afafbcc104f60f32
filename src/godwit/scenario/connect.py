"""Broker sources that a file names, made for a fleet."""

from __future__ import annotations

from typing import Any

from godwit.api.fleet import Fleet
from godwit.ingest.sources import KafkaSource, MqttSource, NatsSource, PositionColumns
from godwit.ingest.sources.broker_source import BrokerSource
from godwit.scenario.spec import SourceSpec


def broker_source(fleet: Fleet, spec: SourceSpec, number: int) -> BrokerSource[Any] | None:
    """The source that a file's entry stands for; None: it is none of a broker."""
    options: dict[str, Any] = {"name": spec.name or f"{spec.stream}-{number}"}
    if spec.positions is not None:
        options["positions"] = spec.positions.made(PositionColumns)
    if spec.mqtt is not None:
        named = {} if "{stream}" in spec.mqtt.topic else {"stream": spec.stream}
        return spec.mqtt.made(MqttSource, fleet, **options, **named)
    if spec.nats is not None:
        named = {} if "{stream}" in spec.nats.subject else {"stream": spec.stream}
        return spec.nats.made(NatsSource, fleet, **options, **named)
    if spec.kafka is not None:
        return spec.kafka.made(KafkaSource, fleet, stream=spec.stream, **options)
    return None


def follow_brokers(fleet: Fleet, sources: list[SourceSpec]) -> list[BrokerSource[Any]]:
    """Let every broker source of a file feed the fleet."""
    made = [broker_source(fleet, spec, number) for number, spec in enumerate(sources)]
    found = [source for source in made if source is not None]
    for source in found:
        fleet.follow(source)
    return found
