"""Sources beside devices that push: any Spark streaming source, and recorded files."""

from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource

__all__ = ["Replay", "SparkSource"]
