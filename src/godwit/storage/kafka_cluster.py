"""Kafka as logs need it: topics of one partition, appended to, followed from where they begin, cut, looked up.

kafka://host:9092/FLEET?segments=file:/data/f&replication=3      FLEET: before the names of all topics

One consumer follows all topics that somebody here reads; another looks up what lies further back. While the brokers are
away, callers wait for them. More of librdkafka's settings (TLS, SASL): a file of lines KEY=VALUE that the environment
names, `GODWIT_KAFKA_PROPERTIES`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from godwit.drivers import driver
from godwit.errors import ConfigError

log = logging.getLogger(__name__)
T = TypeVar("T")

#: how long one question may take; for how long it is asked again while the brokers are away; the pause (seconds)
TIMEOUT, PATIENCE, PAUSE = 5.0, 600.0, 0.1
#: messages that are looked up together
AT_ONCE = 64
PROPERTIES = "GODWIT_KAFKA_PROPERTIES"
#: nothing goes by itself
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "max.message.bytes": "2000000"}

#: (offset, the number that the message says it has, its content)
Message = tuple[int, int, bytes]


class KafkaCluster:
    """A connection for callers of any thread."""

    def __init__(self, servers: str, fleet: str, replication: int = -1, patience: float = PATIENCE) -> None:
        """`replication`: of topics that are made; -1: as the brokers do."""
        self.servers, self.fleet, self._replication, self._patience = servers, fleet, replication, patience
        self._kafka = driver("confluent_kafka")
        told = {**_properties(), "bootstrap.servers": servers}
        reads = {
            **told, "group.id": f"godwit.{uuid.uuid4().hex}", "enable.auto.commit": False, "fetch.wait.max.ms": 50,
            "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted", "fetch.error.backoff.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }  # fmt: skip
        # A message that is sent twice is known by its number, so nothing depends on the producer's own memory.
        sends = {**told, "acks": "all", "linger.ms": 0, "message.timeout.ms": 10_000, "message.max.bytes": 2_000_000}
        self._producer = self._kafka.Producer(sends, logger=log)
        self._admin = driver("confluent_kafka.admin").AdminClient(told, logger=log)
        self._follower, self._seeker = (self._kafka.Consumer(reads, logger=log) for _ in range(2))
        self._seeking, self._making = threading.Lock(), threading.Lock()
        self._told: dict[str, Callable[[Message], None]] = {}
        #: (topic, from which offset on, who is told; None: nobody any more): the client's consumer wants one thread
        self._wanted: SimpleQueue[tuple[str, int, Callable[[Message], None] | None]] = SimpleQueue()
        self._over, self._parting = threading.Event(), False
        try:
            self._admin.list_topics(timeout=TIMEOUT)
        except self._kafka.KafkaException as fault:
            msg = (
                f"Kafka at {servers} cannot be reached ({fault.args[0].str()}); check the address, and that the broker "
                f"runs. What it wants of TLS and SASL stands in the file that {PROPERTIES} names"
            )
            raise ConfigError(msg) from fault
        self._threads = [
            threading.Thread(target=work, name=f"godwit-kafka-{name}", daemon=True)
            for name, work in (("follow", self._follow_all), ("deliver", self._deliver))
        ]
        for thread in self._threads:
            thread.start()

    # --- topics

    def make(self, topic: str) -> None:
        """A topic of one partition, if there is none."""
        with self._making:
            made = driver("confluent_kafka.admin").NewTopic(topic, 1, self._replication, config=KEPT)
            try:
                self._ask(lambda: self._admin.create_topics([made], operation_timeout=TIMEOUT)[topic].result(TIMEOUT))
            except self._kafka.KafkaException as fault:
                if fault.args[0].code() != self._kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def topics(self) -> list[str]:
        return list(self._ask(lambda: self._admin.list_topics(timeout=TIMEOUT)).topics)

    def remove(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.leave(topic)
            self._ask(lambda gone=topic: self._admin.delete_topics([gone])[gone].result(TIMEOUT))  # type: ignore[misc]

    def ends(self, topic: str) -> tuple[int, int]:
        """(offset of the first message that is kept, offset of the next one), as they are now."""
        low, high = self._ask(lambda: self._ends(topic))
        return int(low), int(high)

    def _ends(self, topic: str) -> tuple[int, int]:
        try:
            found: tuple[int, int] = self._seeker.get_watermark_offsets(self._partition(topic), TIMEOUT, cached=False)
        except self._kafka.KafkaException:
            # A topic that it has not found once, because it was being made, stays unknown to it until it is asked for.
            self._seeker.list_topics(topic, timeout=TIMEOUT)
            raise
        return found

    def cut(self, topic: str, offset: int) -> None:
        """Nothing before an offset is kept."""
        at = self._partition(topic, offset)
        self._ask(lambda: self._admin.delete_records([at])[self._partition(topic)].result(TIMEOUT))

    # --- messages

    def append(self, topic: str, number: int, data: bytes) -> int:
        """Durable when it returns; its offset. It may be there twice, if an answer was lost."""
        return self._ask(lambda: self._sent(topic, number, data))

    def _sent(self, topic: str, number: int, data: bytes) -> int:
        done, found = threading.Event(), list[Any]()

        def answered(error: Any, message: Any) -> None:
            found.append(error or message)
            done.set()

        self._producer.produce(topic, data, key=str(number), partition=0, on_delivery=answered)
        done.wait()
        if isinstance(found[0], self._kafka.KafkaError):
            raise self._kafka.KafkaException(found[0])
        return int(found[0].offset())

    def follow(self, topic: str, offset: int, told: Callable[[Message], None]) -> None:
        """Call `told`, which must not wait for anything, with every message from an offset on, in order."""
        self._wanted.put((topic, offset, told))

    def leave(self, topic: str) -> None:
        """Follow it no more."""
        self._wanted.put((topic, 0, None))

    def look_up(self, topic: str, offset: int) -> list[Message]:
        """The message at an offset, and some behind it; nothing if it is no longer there."""
        with self._seeking:
            self._seeker.assign([self._partition(topic, offset)])
            try:
                return self._ask(self._some)
            finally:
                self._seeker.unassign()

    def _some(self) -> list[Message]:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            if found := _messages(self._seeker.consume(AT_ONCE, timeout=0.05)):
                return [message for _, message in found]
        raise self._kafka.KafkaException(self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT))

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(1.0)
        self._follower.close()
        self._seeker.close()

    # --- at work

    def _follow_all(self) -> None:
        while not self._over.is_set():
            self._change_course(wait=not self._told)
            for topic, message in _messages(self._follower.consume(AT_ONCE, timeout=0.02)) if self._told else ():
                if (told := self._told.get(topic)) is not None:
                    told(message)

    def _change_course(self, wait: bool) -> None:
        with contextlib.suppress(Empty):
            while True:
                topic, offset, told = self._wanted.get(wait, 0.1)
                if self._told.pop(topic, None) is not None:
                    self._follower.incremental_unassign([self._partition(topic)])
                if told is not None:
                    self._told[topic], wait = told, False
                    self._follower.incremental_assign([self._partition(topic, offset)])

    def _deliver(self) -> None:
        """Answers to what was sent are given on this thread."""
        while not self._over.is_set():
            self._producer.poll(0.1)

    def part(self) -> None:
        """This process is about to end: from now on nobody waits for brokers that are away."""
        self._parting = True

    def _partition(self, topic: str, offset: int | None = None) -> Any:
        return self._kafka.TopicPartition(topic, 0, *([] if offset is None else [offset]))

    def _ask(self, question: Callable[[], T]) -> T:
        """Again and again while the brokers are away; what they refuse is the caller's. OSError: they did not come
        back."""
        until, told = time.monotonic() + self._patience, False
        while True:
            try:
                answer = question()
            except self._kafka.KafkaException as said:
                if not _may_pass(said.args[0]):
                    raise
                fault: Exception = said
            except TimeoutError as late:
                fault = late
            else:
                if told:
                    log.warning("Kafka at %s is back", self.servers)
                return answer
            if time.monotonic() > until or self._over.is_set() or self._parting:
                msg = f"Kafka at {self.servers} is away: {fault}"
                raise OSError(msg) from fault
            if not told:
                log.warning("Kafka at %s is away (%s); waiting for it", self.servers, fault)
                told = True
            time.sleep(PAUSE)


def _may_pass(error: Any) -> bool:
    """Whether asking again may help. (A topic that was just made is not known to everybody at once.)"""
    kafka = driver("confluent_kafka").KafkaError
    local = (kafka._TRANSPORT, kafka._ALL_BROKERS_DOWN, kafka._TIMED_OUT, kafka._MSG_TIMED_OUT, kafka._UNKNOWN_TOPIC)
    moving = (kafka.NOT_LEADER_FOR_PARTITION, kafka.LEADER_NOT_AVAILABLE, kafka.UNKNOWN_TOPIC_OR_PART)
    return bool(error.retriable()) or error.code() in (*local, *moving, kafka._UNKNOWN_PARTITION, kafka._WAIT_COORD)


def _messages(found: Iterable[Any]) -> list[tuple[str, Message]]:
    """(Errors are what the client goes on after by itself: a broker that is away, a topic that is not known yet.)"""
    good = (one for one in found if one.error() is None)
    return [(one.topic(), (one.offset(), int(one.key()), one.value() or b"")) for one in good]


def _properties() -> Mapping[str, str]:
    file = os.environ.get(PROPERTIES)
    if not file:
        return {}
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines()]
    except OSError as fault:
        msg = f"cannot read {file}, which {PROPERTIES} names: {fault.strerror}; check the path"
        raise ConfigError(msg) from fault
    told = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in told}
