"""Sources and sinks as files name them: one form for scenarios and for `godwit serve --config`.

    sources:
      - {stream: passengers, mqtt: {host: broker, topic: "fleet/{site}/{device}"}}
    queries:
      - {name: busy, sql: "...", write_to: {postgresql: {dsn: "host=db dbname=fleet password=${DB}", table: busy}}}

`${NAME}` in a text is the environment's: passwords need not lie in files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from godwit.delivery.sinks import (
    ConsoleSink,
    DeltaSink,
    IcebergSink,
    JsonLinesSink,
    KafkaSink,
    MqttSink,
    NatsSink,
    ParquetSink,
    PostgresqlSink,
    ResultSink,
    WebhookSink,
)

Port = Annotated[int, Field(ge=1, le=65535)]
Made = TypeVar("Made")


class ConnectorSpec(BaseModel):
    """Its fields are what the connector's class takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, given: Any) -> Any:
        return _expanded(given)

    def made(self, make: Callable[..., Made], *first: Any, **more: Any) -> Made:
        return make(*first, **self.model_dump(exclude_none=True), **more)


def _expanded(given: Any) -> Any:
    """Texts with the environment's values."""
    match given:
        case str():
            return re.sub(r"\$\{(\w+)\}", _value, given)
        case dict():
            return {key: _expanded(value) for key, value in given.items()}
        case list():
            return [_expanded(value) for value in given]
    return given


def _value(name: re.Match[str]) -> str:
    found = os.environ.get(name[1])
    if found is None:
        msg = f"${{{name[1]}}} is not in the environment; set {name[1]}"
        raise ValueError(msg)
    return found


class PostgresqlSpec(ConnectorSpec):
    dsn: str
    table: str


class WebhookSpec(ConnectorSpec):
    url: str
    headers: dict[str, str] = {}
    secret: str | None = None
    rows: Annotated[int, Field(gt=0)] = 1000


class BrokerSpec(ConnectorSpec):
    """What MQTT's source and sink have in common."""

    host: str
    topic: str
    port: Port = 1883
    username: str | None = None
    password: str | None = None
    tls: bool = False


class MqttSinkSpec(BrokerSpec):
    retain: bool = False


class NatsSinkSpec(ConnectorSpec):
    servers: str
    subject: str
    stream: str | None = None
    rows: Annotated[int, Field(gt=0)] = 500


class KafkaSinkSpec(ConnectorSpec):
    servers: str
    topic: str
    key: str | None = None
    options: dict[str, str] = {}


class IcebergSpec(ConnectorSpec):
    table: str
    catalog: dict[str, str]


class SinkSpec(BaseModel):
    """Where results go beside `q.results()`; as many as are named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parquet: Path | None = None
    json_lines: Path | None = None
    console: bool = False
    delta: str | None = None
    iceberg: IcebergSpec | None = None
    postgresql: PostgresqlSpec | None = None
    webhook: WebhookSpec | None = None
    mqtt: MqttSinkSpec | None = None
    nats: NatsSinkSpec | None = None
    kafka: KafkaSinkSpec | None = None

    def sinks(self, home: Path) -> list[ResultSink]:
        """Paths are relative to `home`."""
        found: list[ResultSink] = [ConsoleSink()] if self.console else []
        if self.parquet is not None:
            found.append(ParquetSink(home / self.parquet))
        if self.json_lines is not None:
            found.append(JsonLinesSink(home / self.json_lines))
        if self.delta is not None:
            found.append(DeltaSink(self.delta if "://" in self.delta else home / self.delta))
        sinks: list[tuple[ConnectorSpec | None, Callable[..., ResultSink]]] = [
            (self.iceberg, IcebergSink),
            (self.postgresql, PostgresqlSink),
            (self.webhook, WebhookSink),
            (self.mqtt, MqttSink),
            (self.nats, NatsSink),
            (self.kafka, KafkaSink),
        ]
        return found + [spec.made(make) for spec, make in sinks if spec is not None]


class PositionsSpec(ConnectorSpec):
    """The columns by which position reports attach devices to the nearest site."""

    lat: str = "lat"
    lon: str = "lon"
    hysteresis_m: Annotated[float, Field(ge=0)] = 0.0


class MqttSourceSpec(BrokerSpec):
    site: str | None = None
    #: the field that numbers a device's messages
    sequence: str | None = None


class NatsSourceSpec(ConnectorSpec):
    servers: str
    subject: str
    site: str | None = None


class KafkaSourceSpec(ConnectorSpec):
    servers: str
    topic: str
    #: "key": the record's key names the device
    device: str | None = None
    site: str | None = None
    site_header: str | None = "site"
    options: dict[str, str] = {}
