"""Sinks: where the committed results of a query go, each exactly-once or saying that it is not."""

from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.delivery.sinks.callback import CallbackSink
from godwit.delivery.sinks.console import ConsoleSink
from godwit.delivery.sinks.delta_lake import DeltaSink
from godwit.delivery.sinks.iceberg import IcebergSink
from godwit.delivery.sinks.json_lines import JsonLinesSink
from godwit.delivery.sinks.kafka import KafkaSink
from godwit.delivery.sinks.mqtt import MqttSink
from godwit.delivery.sinks.nats import NatsSink
from godwit.delivery.sinks.parquet import ParquetSink
from godwit.delivery.sinks.postgresql import PostgresqlSink
from godwit.delivery.sinks.webhook import WebhookSink

__all__ = [
    "CallbackSink",
    "ConsoleSink",
    "DeltaSink",
    "IcebergSink",
    "JsonLinesSink",
    "KafkaSink",
    "MqttSink",
    "NatsSink",
    "ParquetSink",
    "PostgresqlSink",
    "ResultBatch",
    "ResultSink",
    "WebhookSink",
]
