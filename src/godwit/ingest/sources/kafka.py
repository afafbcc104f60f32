"""A Kafka topic as a source, by librdkafka. Exactly once: offsets are the sequence numbers, partition by partition.

Offsets are committed to the consumer group once their rows are durable; what comes again after a crash, or after a
partition went to another consumer and came back, is told by its offset. (Spark's own Kafka source is
`fleet.ingest(stream, "kafka", ...)`, where its package is there.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from godwit.api.core import FleetCore
from godwit.drivers import driver
from godwit.errors import ConfigError, SourceError
from godwit.ingest.device_locator import PositionColumns
from godwit.ingest.sources.broker_source import AT_ONCE, BrokerSource
from godwit.ingest.sources.intake import Intake, Message

log = logging.getLogger(__name__)

#: how long the brokers may take to answer when the source is opened (seconds)
PATIENCE = 5.0


class KafkaSource(BrokerSource[Any]):
    """Feeds `stream` from `topic`. A record is a row (or a list of rows) in JSON; its device is in the stream's device
    column, or the record's key (`device="key"`). `site_header`: the header that names the site it came in at."""

    def __init__(
        self,
        fleet: FleetCore,
        servers: str,
        topic: str,
        stream: str,
        *,
        device: str | None = None,
        site: str | None = None,
        site_header: str | None = "site",
        positions: PositionColumns | None = None,
        options: Mapping[str, Any] | None = None,
        name: str = "kafka",
    ) -> None:
        super().__init__(fleet, name, Intake(fleet, site=site, positions=positions), f"kafka://{servers}, {topic}")
        self._kafka = driver("confluent_kafka")
        self._topic, self._stream, self._by_key, self._header = topic, stream, device == "key", site_header
        self._settings = {
            "auto.offset.reset": "earliest",
            "log_level": 2,  # (that a broker is away is said here, once, and not with each of its attempts)
            **(options or {}),
            "bootstrap.servers": servers,
            "group.id": f"godwit.{name}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "error_cb": self._note,
        }
        try:
            self._kafka.Consumer(self._settings, logger=log).close()
        except self._kafka.KafkaException as fault:
            msg = f"kafka topic '{topic}': {fault.args[0].str()}; options are those of librdkafka"
            raise ConfigError(msg) from fault
        #: what the client has said since it was opened
        self._failed: Any = None
        self._more = (site, positions)
        self._intakes: dict[int, Intake] = {}
        self._consumer: Any = None

    @property
    def rows(self) -> int:
        return sum(intake.rows for intake in self._intakes.values())

    def _open(self) -> None:
        self._failed = None
        self._consumer = self._kafka.Consumer(self._settings, logger=log)
        try:
            self._consumer.list_topics(timeout=PATIENCE)  # (to subscribe says nothing of a broker that is away)
        except self._kafka.KafkaException as fault:
            raise SourceError((self._failed or fault.args[0]).str()) from fault
        self._consumer.subscribe([self._topic])

    def _note(self, error: Any) -> None:
        """What the client cannot mend by itself, told on the thread that asks it for messages."""
        if error.code() in (self._kafka.KafkaError._ALL_BROKERS_DOWN, self._kafka.KafkaError._AUTHENTICATION):
            self._failed = error

    def _receive(self) -> Sequence[Any]:
        found = self._consumer.consume(AT_ONCE, timeout=0.1)
        if self._failed is not None and not found:
            raise SourceError(self._failed.str())
        for message in found:
            if message.error() is not None:
                if message.error().code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue  # it may be made later
                raise SourceError(str(message.error()))
        return [message for message in found if message.error() is None]

    def _turn(self) -> None:
        """As every source, but each partition counts for itself."""
        told = self._receive()
        if not told:
            return
        self._wait(self._stream)
        for partition in sorted({message.partition() for message in told}):
            mine = [message for message in told if message.partition() == partition]
            if partition not in self._intakes:
                site, positions = self._more
                feeder = f"kafka {self.name} {self._topic} {partition}"
                self._intakes[partition] = Intake(self._fleet, feeder, site=site, positions=positions)
            found = [message for message in map(self._message, mine) if message is not None]
            self._intakes[partition].take(found)
        self._acknowledge(told)

    def _message(self, told: Any) -> Message | None:
        if told.value() is None:
            return None  # (a record that deletes a key)
        headers = dict(told.headers() or ())
        site = headers.get(self._header) if self._header else None
        device = told.key().decode(errors="replace") if self._by_key and told.key() else None
        number = told.offset() + 1
        return Message(self._stream, told.value(), device, None if site is None else site.decode(), number)

    def _acknowledge(self, told: Sequence[Any]) -> None:
        ends: dict[int, int] = {}
        for message in told:
            ends[message.partition()] = message.offset() + 1
        at = [self._kafka.TopicPartition(self._topic, partition, offset) for partition, offset in ends.items()]
        self._consumer.commit(offsets=at, asynchronous=False)

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
