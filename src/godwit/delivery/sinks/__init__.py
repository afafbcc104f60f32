"""Sinks: where the committed results of a query go, each exactly-once or saying that it is not."""

from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.delivery.sinks.callback import CallbackSink
from godwit.delivery.sinks.console import ConsoleSink
from godwit.delivery.sinks.json_lines import JsonLinesSink
from godwit.delivery.sinks.parquet import ParquetSink

__all__ = ["CallbackSink", "ConsoleSink", "JsonLinesSink", "ParquetSink", "ResultBatch", "ResultSink"]
