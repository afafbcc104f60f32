"""A log as its writer or one of its readers sees it: a name in a store, and how far it is known to go.

What a record names (segments) exists before it does. One writer a log, any number of readers, each of which remembers
the number it has come to. A reader needs no listing: it asks for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from godwit.storage.base import LogStore
from godwit.storage.segment import Segment

__all__ = ["Log", "Record", "Segment"]

Record = dict[str, Any]


class Log:
    """A numbered sequence of records. The first number is 1."""

    def __init__(self, store: LogStore, name: str) -> None:
        self._store, self.name = store, name
        #: the least number that is kept; the newest record's; for readers: as far as they have looked
        self.first, self.last = store.bounds(name)

    def append(self, record: Mapping[str, Any], expect: int | None = None) -> int:
        """Write the next record (`expect`: which must be this one); it is there wholly or not at all."""
        number = self.last + 1 if expect is None else expect
        self._store.append_record(self.name, number, record)
        self.last = number
        return number

    def read(self, number: int) -> Record | None:
        """The record of that number, or None if it is not written yet (or no longer kept)."""
        record = self._store.read_record(self.name, number)
        if record is not None:
            self.last = max(self.last, number)
        return record

    def newest(self) -> Record | None:
        """The last record, if there is one."""
        return self.read(self.last) if self.last else None

    def after(self, number: int) -> Iterator[tuple[int, Record]]:
        """Records past `number`, as far as they are written and still kept."""
        while True:
            record = self.read(number + 1)
            if record is None:
                floor = self._store.floor(self.name)
                if floor <= number + 1:
                    return
                number = floor - 1
                continue
            number += 1
            yield number, record

    def exists(self, number: int) -> bool:
        """Whether there is a record of that number or, where it is no longer kept, a later one."""
        return number <= self.last or self._store.reaches(self.name, number)

    def wait(self, after: int, timeout: float) -> bool:
        """Wait for a record past a number; False: none came in time."""
        return self._store.wait(self.name, after, timeout)

    def end(self) -> int:
        """The number of the newest record, as it is in the store now."""
        self.last = max(self.last, self._store.bounds(self.name)[1])
        return self.last

    def truncate(self, below: int) -> list[Record]:
        """Forget the records below a number that every reader has passed; returns them, so that their files can go."""
        numbers = range(self.first, min(below, self.last))
        gone = [record for record in map(self.read, numbers) if record is not None]
        for _ in self.drop(below):
            pass
        return gone

    def drop(self, below: int) -> Iterator[int]:
        """The same one by one, without looking into them; yields their numbers."""
        below = min(below, self.last)  # the newest stays: it says where the log stands
        yield from self._store.drop(self.name, below)
        self.first = max(self.first, below)
