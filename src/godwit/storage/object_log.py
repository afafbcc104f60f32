"""A log on an object store: an object for each record, put if its name is free.

regions/west/sources/passengers/0000000012.log      record 12
regions/west/sources/passengers/floor               from which number on the log is kept
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection

from godwit.storage import names
from godwit.storage.message_log import MessageLog
from godwit.storage.objects import Objects


class ObjectLogs:
    """All logs of a fleet."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.on_append: Callable[[str], None] = lambda log: None

    def log(self, name: str, *, shared: bool) -> ObjectLog:
        return ObjectLog(self._objects, name, shared)

    def remove(self, folder: str) -> None:
        """Records are objects in the folder, and go with it."""

    def refresh(self, logs: Collection[str] = ()) -> None:
        pass

    def claim(self, region: str) -> None:
        pass

    def part(self) -> None:
        """(The client gives up by itself.)"""

    def close(self) -> None:
        pass


class ObjectLog(MessageLog):
    """One log."""

    def __init__(self, objects: Objects, name: str, shared: bool) -> None:
        super().__init__(name, objects.root, shared)
        self._objects = objects
        #: the newest number that was ever seen: records before it need no listing
        self._seen = 0

    @property
    def floor(self) -> int:
        if self._mine is not None:
            return self._mine[0]
        with contextlib.suppress(FileNotFoundError):
            return int(self._objects.get(f"{self._name}/floor"))
        return 1

    def _put(self, number: int, data: bytes) -> bool:
        return self._objects.create(self._file(number), data)

    def _get(self, number: int) -> bytes | None:
        try:
            return self._objects.get(self._file(number))
        except FileNotFoundError:
            return None

    def _there(self, number: int) -> bool:
        try:
            self._objects.size(self._file(number))
        except FileNotFoundError:
            return False
        self._seen = max(self._seen, number)
        return number >= self.floor

    def _bounds(self) -> tuple[int, int]:
        floor = self.floor
        if floor > self._seen or not self._seen:
            there = [n for name in self._objects.names(self._name) if (n := names.chunk_first(name)) is not None]
            self._seen = max(there, default=0)
            return (max(floor, min(there)), self._seen) if there else (floor, floor - 1)
        while self._get(self._seen + 1) is not None:
            self._seen += 1
        return floor, self._seen

    def _cut(self, first: int, below: int) -> None:
        self._objects.put(f"{self._name}/floor", str(below).encode())
        for number in range(first, below):
            self._objects.delete(self._file(number))

    def _file(self, number: int) -> str:
        return f"{self._name}/{names.number(number)}.log"
