"""Sources beside devices that push: brokers, any Spark streaming source, and recorded files."""

from godwit.ingest.device_locator import PositionColumns
from godwit.ingest.sources.kafka import KafkaSource
from godwit.ingest.sources.mqtt import MqttSource
from godwit.ingest.sources.nats import NatsSource
from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource

__all__ = ["KafkaSource", "MqttSource", "NatsSource", "PositionColumns", "Replay", "SparkSource"]
