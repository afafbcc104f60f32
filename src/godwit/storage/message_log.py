"""A log whose records are messages of a broker or objects of a bucket; the server decides who has a number.

A subclass says how a message is put, got, counted and removed. Here is what they share: how a record becomes bytes, the
newest records in memory, and that the writer of a log needs no question to know how far it goes.
"""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from godwit.errors import StateError
from godwit.storage import frames
from godwit.storage.inline import encode
from godwit.storage.tail import KeptRecord, RecordTail

#: so many bytes of the newest records are kept in memory, of each log: to read them again is a request
TAIL_BYTES = 4_000_000
#: behind every record: who wrote it, so that an append whose answer was lost is known again
WRITER = uuid.uuid4().bytes


class MessageLog(ABC):
    """The same as `chunk_log.ChunkLog` to a store. Any process may append: the first has the number."""

    def __init__(self, name: str, where: str, shared: bool) -> None:
        """`where`: for messages; `shared`: others write to it, too."""
        self._name, self._where, self._shared = name, where, shared
        self._lock = threading.Lock()
        #: what was written here is kept, too, once somebody here has read the log
        self._tail, self._read_here = RecordTail(TAIL_BYTES), False
        #: (first, last) as this process left them, once it has written
        self._mine: tuple[int, int] | None = None

    # --- what a server does

    @abstractmethod
    def _put(self, number: int, data: bytes) -> bool:
        """Keep a message as this number; False: the number is taken."""

    @abstractmethod
    def _get(self, number: int) -> bytes | None: ...

    @abstractmethod
    def _bounds(self) -> tuple[int, int]:
        """(the least number that is kept, the newest), as the server has them now; (1, 0) of an empty log."""

    @abstractmethod
    def _there(self, number: int) -> bool:
        """Whether a number that this process did not write is there."""

    @abstractmethod
    def _cut(self, first: int, below: int) -> None:
        """Nothing below a number is kept from now on."""

    @property
    def floor(self) -> int:
        return self.bounds()[0]

    # --- writing

    def append(self, number: int, record: Mapping[str, Any]) -> bool:
        """Write a record whole; False if its number is taken."""
        encoded = encode(record, {})
        data = frames.pack_record(number, encoded) + WRITER
        first, last = self._mine or self._bounds()
        if number <= last:
            return False
        if number > last + 1:
            msg = f"log '{self._name}' ends at {last}, so record {number} cannot follow: records are missing"
            raise StateError(msg)
        try:
            taken = not self._put(number, data) and self._get(number) != data  # (ours, if only its answer was lost)
        except BaseException:
            self._mine = None  # whether it is there is not known
            raise
        if taken:
            self._mine = None
            return False
        if not self._shared:
            self._mine = (min(first, number), number)
        if self._read_here:
            with self._lock:
                self._tail.keep(number, KeptRecord(len(data), encoded, encoded.fresh))
        return True

    def drop(self, below: int) -> range:
        """Nothing below a number is kept; the newest record stays. Returns the numbers that went."""
        first, last = self.bounds()
        below = min(below, last)
        if below <= first:
            return range(0)
        self._cut(first, below)
        with self._lock:
            self._tail.drop(below)
            if self._mine is not None:
                self._mine = (below, self._mine[1])
        return range(first, below)

    # --- reading

    def bounds(self) -> tuple[int, int]:
        return self._mine or self._bounds()

    def bounds_after(self, number: int) -> tuple[int, int]:
        """The same; a server that is far away sends the records past a number along."""
        return self.bounds()

    def has(self, number: int) -> bool:
        if self._mine is not None:
            return self._mine[0] <= number <= self._mine[1]
        with self._lock:
            if number in self._tail:
                return True
        return number > 0 and self._there(number)

    def read(self, number: int) -> Any | None:
        self._read_here = True
        with self._lock:
            kept = self._tail.get(number)
            if kept is not None:
                return kept.read()
        if number < 1 or (self._mine is not None and number > self._mine[1]):
            return None
        data = self._get(number)
        if data is None:
            return None
        where = f"{self._where}/{self._name}"
        frame = next(frames.frames(data, 0, where), None)
        if frame is None:
            msg = f"{where}: record {number} is damaged: it is cut off; restore it from a copy"
            raise StateError(msg)
        body = frames.unpack_record(frames.verified(frame, data[frame.body : frame.body + frame.size], where))
        record = body.record(body.fresh)
        with self._lock:
            self._tail.keep(number, KeptRecord(len(data), record=record))
        return record

    def numbers(self) -> list[int]:
        first, last = self.bounds()
        return list(range(first, last + 1))

    def record_bytes(self, number: int) -> int:
        data = self._get(number)
        return 0 if data is None else len(data) - len(WRITER)
