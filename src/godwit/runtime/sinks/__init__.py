"""Sinks: where the committed results of a query go, each exactly-once or saying that it is not."""

from godwit.runtime.sinks.base import Batch, Sink
from godwit.runtime.sinks.callback import CallbackSink
from godwit.runtime.sinks.console import ConsoleSink
from godwit.runtime.sinks.json_lines import JsonLinesSink
from godwit.runtime.sinks.parquet import ParquetSink

__all__ = ["Batch", "CallbackSink", "ConsoleSink", "JsonLinesSink", "ParquetSink", "Sink"]
