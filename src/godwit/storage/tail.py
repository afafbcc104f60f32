"""The newest records of a log, in memory: whoever reads what was just written or read needs no file and no server, and
gets the very tables that were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from godwit.storage.inline import Definition, Encoded, decode

#: so many of the newest records stay, of so many bytes at most (but always one)
TAIL_RECORDS, TAIL_BYTES = 128, 500_000


@dataclass
class KeptRecord:
    """A record as it was written, until somebody asks for it; then as it is read."""

    size: int
    encoded: Encoded | None = None
    #: what `encoded` refers to
    defined: Sequence[Definition] = ()
    record: Any = None

    def read(self) -> Any:
        if self.encoded is not None:
            rows = self.encoded.rows
            self.record, self.encoded = decode(self.encoded.text, self.defined, lambda n, _: rows[n]), None
        return self.record


class RecordTail:
    """For one thread at a time."""

    def __init__(self, most: int = TAIL_BYTES) -> None:
        """`most`: bytes."""
        self._most, self._bytes = most, 0
        self._kept: dict[int, KeptRecord] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    def get(self, number: int) -> KeptRecord | None:
        return self._kept.get(number)

    def keep(self, number: int, kept: KeptRecord) -> None:
        self._pop(number)
        self._kept[number] = kept
        self._bytes += kept.size
        while len(self._kept) > TAIL_RECORDS or (self._bytes > self._most and len(self._kept) > 1):
            self._pop(next(iter(self._kept)))

    def drop(self, below: int) -> None:
        for number in [n for n in self._kept if n < below]:
            self._pop(number)

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def _pop(self, number: int) -> None:
        kept = self._kept.pop(number, None)
        self._bytes -= 0 if kept is None else kept.size
