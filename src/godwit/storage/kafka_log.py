"""Logs in Kafka: a log is a topic of one partition, and the order of its messages decides who has a number.

    record 12 of a log        the first message behind record 11 that says it is 12; every other one is void
    append if free            Kafka knows no condition, so a message is sent, and its writer looks whether it is the
                              record. All readers see one order, so all agree; whoever comes late leaves a void message
    drop                      DeleteRecords up to the offset of a record, which therefore is the first that is kept

Nothing depends on producers' ids, transactions or clocks. A log that a process reads is followed from its first record
on, so that it need not ask whether there is news.
"""

from __future__ import annotations

import hashlib
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection

from godwit.storage.base import Disk
from godwit.storage.kafka_cluster import PATIENCE, KafkaCluster, Message
from godwit.storage.large_records import LargeRecords
from godwit.storage.message_log import MessageLog

#: limit of records kept until they are read
UNREAD = 256
#: Kafka's names have up to 249 characters
LONGEST = 200


class KafkaLogs:
    """All logs of a fleet."""

    def __init__(self, cluster: KafkaCluster, disk: Disk) -> None:
        """`disk`: for records that are too large for a message."""
        self.cluster, self._disk = cluster, disk
        self.on_append: Callable[[str], None] = lambda log: None
        #: raised whenever readers must see what is there now
        self.refreshes = 0

    def log(self, name: str, *, shared: bool) -> KafkaLog:
        return KafkaLog(self, LargeRecords(self._disk, name), name, shared)

    def remove(self, folder: str) -> None:
        """The logs below a folder, with all records."""
        exact, below = topic_of(self.cluster.fleet, folder), f"{topic_of(self.cluster.fleet, folder)}."
        self.cluster.remove(one for one in self.cluster.topics() if one == exact or one.startswith(below))

    def refresh(self, logs: Collection[str] = ()) -> None:
        self.refreshes += 1

    def claim(self, region: str) -> None:
        pass

    def part(self) -> None:
        self.cluster.part()

    def close(self) -> None:
        self.cluster.close()


def topic_of(fleet: str, log: str) -> str:
    """No underscores: Kafka takes names that differ in dots and underscores only for the same."""
    plain = ".".join(
        re.sub(r"[^A-Za-z0-9]", lambda one: f"-{ord(one[0]):x}", part) for part in (fleet, *log.split("/"))
    )
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}-{hashlib.sha256(plain.encode()).hexdigest()[:16]}"


class TopicFold:
    """Which messages of a topic are records: pure, told of messages in order."""

    def __init__(self, position: int) -> None:
        """`position`: the offset of the first message that is kept."""
        #: of the next message
        self.position = position
        #: offsets of records from `first` on; as far as messages are here, their contents
        self.first, self.offsets = 1, list[int]()
        self.unread: dict[int, bytes] = {}

    @property
    def last(self) -> int:
        return self.first + len(self.offsets) - 1

    def take(self, offset: int, number: int, data: bytes) -> bool:
        """Whether the message is a record."""
        if offset < self.position:
            return self.offset_of(number) == offset
        cut = offset > self.position  # what was before it is gone, so that it is the first that is kept
        self.position = offset + 1
        if cut or not self.offsets:
            self.first, self.offsets = number, []
        elif number != self.last + 1:
            return False
        self.offsets.append(offset)
        self.unread[number] = data
        while len(self.unread) > UNREAD:
            del self.unread[next(iter(self.unread))]
        return True

    def offset_of(self, number: int) -> int | None:
        return self.offsets[number - self.first] if self.first <= number <= self.last else None

    def cut(self, low: int) -> None:
        """Messages before an offset are gone."""
        gone = bisect_left(self.offsets, low)
        self.first, self.offsets = self.first + gone, self.offsets[gone:]

    def record_at(self, offset: int) -> int | None:
        """The number of the record at an offset."""
        at = bisect_left(self.offsets, offset)
        return self.first + at if at < len(self.offsets) and self.offsets[at] == offset else None


class KafkaLog(MessageLog):
    """One log."""

    def __init__(self, logs: KafkaLogs, large: LargeRecords, name: str, shared: bool) -> None:
        super().__init__(name, f"kafka://{logs.cluster.servers}", shared)
        self._logs, self._cluster, self._large = logs, logs.cluster, large
        self._topic = topic_of(logs.cluster.fleet, name)
        self._fold: TopicFold | None = None
        self._news = threading.Condition()
        self._doubts = -1

    @property
    def floor(self) -> int:
        return (self._mine or self._heard())[0]

    def _put(self, number: int, data: bytes) -> bool:
        fold = self._followed()
        message = self._large.message(number, data)
        offset = self._cluster.append(self._topic, number, message)
        with self._news:
            if fold.position == offset:  # nobody else has sent anything: no need to wait until it comes back
                return fold.take(offset, number, message)
        self._wait(offset + 1)
        return fold.offset_of(number) == offset

    def _get(self, number: int) -> bytes | None:
        self._heard()
        fold = self._followed()
        with self._news:
            offset, message = fold.offset_of(number), fold.unread.pop(number, None)
        if offset is None:
            return None
        return self._large.record(message) if message is not None else self._looked_up(fold, number, offset)

    def _looked_up(self, fold: TopicFold, number: int, offset: int) -> bytes | None:
        found = self._cluster.look_up(self._topic, offset)
        with self._news:
            for at, said, data in found:
                if fold.record_at(at) == said:
                    fold.unread[said] = data
            message = fold.unread.pop(number, None)
        if message is None:  # it was cut off behind us
            self._bounds()
        return None if message is None else self._large.record(message)

    def _there(self, number: int) -> bool:
        first, last = self._heard()
        return first <= number <= last

    def _heard(self) -> tuple[int, int]:
        if self._fold is None or self._doubts != self._logs.refreshes:
            return self._bounds()
        return self._fold.first, self._fold.last

    def _bounds(self) -> tuple[int, int]:
        doubts, fold = self._logs.refreshes, self._followed()
        low, high = self._cluster.ends(self._topic)
        if high < fold.position:  # it was removed, and begins again
            with self._news:
                self._cluster.leave(self._topic)
                self._fold = None
                self._tail.clear()
            return self._bounds()
        self._wait(high)
        with self._news:
            fold.cut(low)
            self._doubts = doubts
            return fold.first, fold.last

    def _cut(self, first: int, below: int) -> None:
        offset = self._followed().offset_of(below)
        assert offset is not None, f"{self._name} has no record {below}"
        self._cluster.cut(self._topic, offset)
        with self._news:
            self._followed().cut(offset)
        self._large.cut(below)

    # --- following

    def _followed(self) -> TopicFold:
        with self._news:
            if self._fold is None:
                self._cluster.make(self._topic)
                low, _ = self._cluster.ends(self._topic)
                self._fold = TopicFold(low)
                self._cluster.follow(self._topic, low, self._take)
            return self._fold

    def _take(self, message: Message) -> None:
        with self._news:
            assert self._fold is not None
            self._fold.take(*message)
            self._news.notify_all()
        self._logs.on_append(self._name)

    def _wait(self, position: int) -> None:
        """Until all messages before an offset were taken in."""
        fold = self._followed()
        with self._news:
            if not self._news.wait_for(lambda: fold.position >= position, PATIENCE):
                msg = f"{self._where}/{self._name}: messages up to {position} have not come"
                raise OSError(msg)
