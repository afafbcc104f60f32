"""Results as records of a Kafka topic. Exactly-once for readers of committed records: a commit is one transaction.

The transaction also commits the commit's number, as the offset of a consumer group without consumers, so rows
and position are there together or not at all; `transactional.id` fences off a producer that was thought dead.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver
from godwit.errors import ConfigError, DeliveryError

#: seconds a request to the brokers may take
PATIENCE = 30.0

log = logging.getLogger(__name__)


class KafkaSink(NamedRunSink):
    """Produces JSON, a row each, to `topic`. `key`: the column that becomes the record's key.

    `options`: what librdkafka takes (security.protocol, sasl.username, ...).
    """

    exactly_once: ClassVar[bool] = True

    def __init__(
        self, servers: str, topic: str, *, key: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._topic, self._key = topic, key
        self._options = {**(options or {}), "bootstrap.servers": servers}
        self._kafka = driver("confluent_kafka")
        self._producer: Any = None
        #: scope -> the consumer that stands for the group which keeps its position
        self._groups: dict[str, Any] = {}
        self._positions: dict[str, int] = {}
        self.name = f"kafka:{servers}/{topic}"
        try:
            self._kafka.Producer(self._options, logger=log).flush(0)
        except self._kafka.KafkaException as fault:
            msg = f"kafka topic '{topic}': {fault.args[0].str()}; options are those of librdkafka"
            raise ConfigError(msg) from fault

    def close(self) -> None:
        for consumer in self._groups.values():
            consumer.close()
        self._groups.clear()
        self._positions.clear()
        self._producer = None

    def write(self, batch: ResultBatch) -> None:
        try:
            self._write(batch)
        except self._kafka.KafkaException as error:
            msg = f"{self.name}: {error.args[0]}"
            raise DeliveryError(msg) from error

    def _write(self, batch: ResultBatch) -> None:
        producer, position = self._started(), self._kafka.TopicPartition(self._topic, 0, batch.number)
        group = self._group(batch.scope)
        if self._positions[batch.scope] >= batch.number:
            return  # it came through before
        producer.begin_transaction()
        try:
            for _, rows in batch.pieces(1000):
                for row in rows:
                    self._produce(producer, batch, row)
            producer.send_offsets_to_transaction([position], group.consumer_group_metadata(), PATIENCE)
            producer.commit_transaction(PATIENCE)
        except BaseException:
            producer.abort_transaction(PATIENCE)
            raise
        self._positions[batch.scope] = batch.number

    def _produce(self, producer: Any, batch: ResultBatch, row: dict[str, Any]) -> None:
        if self._key is not None and self._key not in row:
            msg = f"kafka key '{self._key}': results of '{batch.name}' have no such column; they have {list(row)}"
            raise ConfigError(msg)
        key = None if self._key is None or row[self._key] is None else str(row[self._key])
        headers = {"godwit-query": batch.name, "godwit-commit": f"{batch.region}.{batch.number}"}
        while True:
            try:
                producer.produce(self._topic, json.dumps(row), key=key, headers=headers)
                return
            except BufferError:
                producer.poll(0.1)

    def _started(self) -> Any:
        if self._producer is None:
            made = self._kafka.Producer(
                {**self._options, "transactional.id": f"godwit.{self._run}", "linger.ms": 5}, logger=log
            )
            made.init_transactions(PATIENCE)  # (ends what an earlier process left open)
            self._producer = made
        return self._producer

    def _group(self, scope: str) -> Any:
        """The group that keeps the position of a scope; its position is asked for once."""
        if scope not in self._groups:
            name = f"godwit.{self._run}.{scope}"
            consumer = self._kafka.Consumer(
                {**self._options, "group.id": name, "enable.auto.commit": False}, logger=log
            )
            self._groups[scope] = consumer
            (found,) = consumer.committed([self._kafka.TopicPartition(self._topic, 0)], PATIENCE)
            self._positions[scope] = max(found.offset, 0)
        return self._groups[scope]
