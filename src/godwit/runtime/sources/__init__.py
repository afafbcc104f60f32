"""Sources beside devices that push: any Spark streaming source, and recorded files."""

from godwit.runtime.sources.replay import Replay
from godwit.runtime.sources.spark_source import SparkSource

__all__ = ["Replay", "SparkSource"]
