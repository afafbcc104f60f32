"""A log that several processes write (`names.SHARED`): a file for each record. The file system decides who is first.

A draft is written whole, then linked to the number's name, which fails if the name is taken.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from godwit.errors import StateError
from godwit.storage import names
from godwit.storage.base import Disk
from godwit.storage.records import pack, unpack

#: gives a draft its name, durable as asked
Enter = Callable[[str, str, Callable[[str, str], None]], None]


class RecordFiles:
    """One log. Nothing is remembered: other processes may have written meanwhile."""

    def __init__(
        self,
        disk: Disk,
        name: str,
        read: Callable[[str], bytes | None],
        replace: Callable[[str, bytes], None],
        enter: Enter,
        where: Callable[[str], str],
    ) -> None:
        self._disk, self._name, self._content, self._replace = disk, name, read, replace
        self._enter, self._where = enter, where

    def append(self, number: int, record: Mapping[str, Any]) -> bool:
        """Write a record whole, or not at all if its number is taken: then False."""
        draft = f"{self._name}/{names.number(number)}-{os.getpid()}-{threading.get_ident()}.tmp"
        try:
            self._disk.write(draft, pack(record))
            self._enter(draft, self._file(number), self._disk.link)
        except FileExistsError:
            return False
        finally:
            self._disk.delete(draft)
        return True

    def read(self, number: int) -> Any | None:
        data = self._content(self._file(number))
        return None if data is None else unpack(data, self._where(self._file(number)))

    def record_bytes(self, number: int) -> int:
        return self._disk.size(self._file(number))

    def has(self, number: int) -> bool:
        return self._disk.exists(self._file(number))

    def numbers(self) -> list[int]:
        there = (name[:-5] for name in self._disk.names(self._name) if name.endswith(".json"))
        return sorted(n for n in map(names.number_of, there) if n is not None)

    def bounds(self) -> tuple[int, int]:
        numbers, floor = self.numbers(), self.floor
        first = max(numbers[0] if numbers else 1, floor)
        return first, max(numbers[-1] if numbers else 0, first - 1)

    @property
    def floor(self) -> int:
        name = f"{self._name}/truncated"
        text = self._content(name)
        if text is None:
            return 1
        if not text.isdigit():
            msg = f"{self._where(name)} is damaged: it is not a number; write the log's first number into it"
            raise StateError(msg)
        return int(text)

    def drop(self, below: int) -> Iterator[int]:
        """One by one: whoever removes something beside each record needs its number."""
        numbers = self.numbers()
        below = min(below, numbers[-1] if numbers else 1)  # the newest stays: it says where the log stands
        if below > self.floor:
            self._replace(f"{self._name}/truncated", str(below).encode())
        for number in (n for n in numbers if n < max(below, self.floor)):
            self._disk.delete(self._file(number))
            yield number

    def _file(self, number: int) -> str:
        return f"{self._name}/{names.number(number)}.json"
