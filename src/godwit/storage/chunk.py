"""One file of a log: where its records lie, and what it defines for them, as far as it was scanned."""

from __future__ import annotations

from dataclasses import dataclass, field

from godwit.storage.base import Disk
from godwit.storage.frames import (
    BEGIN,
    DEFINING,
    FLOOR,
    HEAD_SIZE,
    RecordFrame,
    begins,
    damaged,
    frames,
    unpack_record,
    verified,
)
from godwit.storage.inline import Definition

#: size of a chunk, in bytes and in records, from which the next one begins
CHUNK_BYTES, CHUNK_RECORDS = 1_000_000, 4_096


@dataclass
class Chunk:
    """What is known of a chunk file: as far as it was scanned. Of an earlier one, nothing until it is read."""

    first: int
    #: up to the end of the last whole frame
    size: int = 0
    records: list[RecordFrame] = field(default_factory=list)
    defined: list[Definition] = field(default_factory=list)
    #: the first number of the chunk before it; None: its beginning is not there
    previous: int | None = None
    floor: int = 1

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    def close(self) -> None:
        """Forget where its records lie; they are looked for again when somebody reads them."""
        self.size, self.records, self.defined = 0, [], []

    @property
    def full(self) -> bool:
        return self.size >= CHUNK_BYTES or len(self.records) >= CHUNK_RECORDS

    def scan(self, disk: Disk, file: str, where: str, *, only_begin: bool = False) -> None:
        """Take in what was not scanned yet, up to a torn end. `only_begin`: it is enough to know how it begins."""
        if only_begin and self.previous is not None:
            return
        base = self.size
        data = disk.read_from(file, base, 4 * HEAD_SIZE if only_begin else None)
        for frame in frames(data, base, where):
            body = data[frame.body - base : frame.end - base]
            if frame.kind == BEGIN:
                self.previous, self.floor = begins(verified(frame, body, where))
                if only_begin:
                    return
            elif frame.kind == FLOOR:
                self.floor = frame.number
            elif frame.number != self.last + 1:
                damaged(where, f"record {self.last + 1} is missing at byte {frame.offset}")
            else:
                if frame.kind == DEFINING:
                    self.defined += unpack_record(verified(frame, body, where)).fresh
                self.records.append(frame)
            self.size = frame.end
