"""A log with one writer: many records per file, one `write` per record.

    sources/passengers/0000000001.log    records 1 to 812
    sources/passengers/0000000813.log    records from 813 on

A chunk is named by its first record. It repeats what its records refer to (`inline.py`) and from where on the log is
kept, so that whole chunks can go. The newest records stay in memory: whoever reads them in the process that wrote them
touches no disk. A process that does not write the log looks at the size of its last chunk to see whether it has grown.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from godwit.errors import StateError
from godwit.storage import frames, names
from godwit.storage.base import Disk
from godwit.storage.chunk import Chunk
from godwit.storage.frames import FLOOR, RecordFrame
from godwit.storage.inline import Definition, encode
from godwit.storage.sync import GroupSync
from godwit.storage.tail import KeptRecord, RecordTail

#: number of recently read chunks whose record offsets are cached, beside the last one
MOST_SCANNED = 4


class ChunkLog:
    """One log. `alone`: nobody but this store writes to it, so that it need not look."""

    def __init__(
        self, disk: Disk, name: str, group: GroupSync | None, where: Callable[[str], str], *, alone: bool = False
    ) -> None:
        self._disk, self._name, self._group, self._where = disk, name, group, where
        self._lock = threading.RLock()
        self._chunks: list[Chunk] | None = None
        self._alone, self._writing = alone, False
        self._known: dict[Definition, int] = {}
        #: the chunk whose name is known to be durable
        self._synced: str | None = None
        self._scanned: list[Chunk] = []
        self._tail = RecordTail()

    # --- reading

    @property
    def floor(self) -> int:
        with self._lock:
            chunks = self._looked()
            return chunks[-1].floor if chunks else 1

    def bounds(self) -> tuple[int, int]:
        """(the least number that is kept, the newest); (1, 0) of an empty log."""
        with self._lock:
            chunks = self._looked()
            if not chunks:
                return 1, 0
            first = max(chunks[0].first, chunks[-1].floor)
            return first, max(chunks[-1].last, first - 1)

    def has(self, number: int) -> bool:
        with self._lock:
            if self._chunks and self._chunks[-1].floor <= number <= self._chunks[-1].last:
                return True  # (without a look: what is there stays, unless the floor has passed it)
            first, last = self.bounds()
            return first <= number <= last

    def reaches(self, number: int) -> bool:
        """Whether there is a record of that number or, where it is no longer kept, a later one."""
        with self._lock:
            chunks = self._chunks
            if not chunks or chunks[-1].last < number:  # (what is there stays)
                chunks = self._looked()
            return bool(chunks) and max(chunks[-1].last, chunks[-1].floor - 1) >= number

    def numbers(self) -> list[int]:
        """The numbers of the records that are there, also of those below the floor; chunks that are missing are seen
        by what the next one says."""
        with self._lock:
            chunks = list(self._looked())
            found: list[int] = []
            for chunk, following in zip(chunks, [*chunks[1:], None], strict=False):
                end = chunk.last + 1
                if following is not None:
                    self._scan(following, only_begin=True)
                    end = following.first if following.previous == chunk.first else self._scan(chunk).last + 1
                found += range(chunk.first, end)
            return found

    def read(self, number: int) -> Any | None:
        with self._lock:
            kept = self._tail.get(number)
            if kept is None:
                return self._read(number) if self.has(number) else None
            return kept.read()

    def record_bytes(self, number: int) -> int:
        """How large a record is on disk; 0: it is not there."""
        with self._lock:
            _, frame = self._found(number) if self.has(number) else (None, None)
            return 0 if frame is None else frame.end - frame.offset

    def _found(self, number: int) -> tuple[Chunk, RecordFrame | None]:
        assert self._chunks is not None
        chunk = self._chunks[bisect_right(self._chunks, number, key=lambda c: c.first) - 1]
        if chunk is not self._chunks[-1] and not chunk.records:
            self._scanned.append(self._scan(chunk))
            if len(self._scanned) > MOST_SCANNED:
                self._scanned.pop(0).close()
        return chunk, chunk.records[number - chunk.first] if chunk.first <= number <= chunk.last else None

    def _read(self, number: int) -> Any | None:
        file = self._name
        try:
            chunk, frame = self._found(number)
            if frame is None:
                return None
            file = self._file(chunk.first)
            body = self._disk.read_from(file, frame.body, frame.size)
        except FileNotFoundError:
            if not self._writing:
                self._chunks = None  # another process has removed it; where the log begins now is looked up
            return None
        except OSError as fault:
            self._unreadable(file, fault)
        return frames.unpack_record(frames.verified(frame, body, self._where(file))).record(chunk.defined)

    def _unreadable(self, file: str, fault: OSError) -> NoReturn:
        msg = f"{self._where(file)} cannot be read ({fault}); mend the disk, or restore the folder from a copy"
        raise StateError(msg) from fault

    # --- what is there

    def _looked(self) -> list[Chunk]:
        """The chunks, the last one as far as it goes now."""
        if self._chunks is None:
            self._chunks = self._listed()
        elif not (self._alone or self._writing):
            self._grown(self._chunks)
        return self._chunks or []

    def _listed(self) -> list[Chunk]:
        there = self._disk.names(self._name)
        old = [name for name in there if name.endswith(".json") and names.number_of(name[:-5]) is not None]
        if old:
            msg = (
                f"{self._where(f'{self._name}/{min(old)}')} was written by an older godwit (format 1, a file for each "
                "record): open the folder with that version, or begin in a new one"
            )
            raise StateError(msg)
        firsts = sorted(n for name in there if (n := names.chunk_first(name)) is not None)
        chunks = [Chunk(first) for first in firsts]
        for chunk in reversed(chunks):  # (one that was just begun may lack its beginning, and so the floor)
            self._scan(chunk)
            if chunk.previous is not None:
                chunks[-1].floor = max(chunk.floor, chunks[-1].floor)
                break
        return chunks

    def _grown(self, chunks: list[Chunk]) -> None:
        """One look at a size, unless there is more."""
        try:
            while chunks:
                if self._disk.size(self._file(chunks[-1].first)) != chunks[-1].size:
                    self._scan(chunks[-1])
                if not chunks[-1].full or not self._disk.exists(self._file(chunks[-1].last + 1)):
                    return
                following = Chunk(chunks[-1].last + 1, floor=chunks[-1].floor)
                chunks[-1].close()
                chunks.append(following)
        except FileNotFoundError:
            pass
        self._chunks = self._listed()

    def _scan(self, chunk: Chunk, *, only_begin: bool = False) -> Chunk:
        file = self._file(chunk.first)
        try:
            chunk.scan(self._disk, file, self._where(file), only_begin=only_begin)
        except FileNotFoundError:
            raise
        except OSError as fault:
            self._unreadable(file, fault)
        return chunk

    def _file(self, first: int) -> str:
        return f"{self._name}/{names.number(first)}.log"

    # --- writing

    def append(self, number: int, record: Mapping[str, Any]) -> bool:
        """Write a record whole; False if its number is taken."""
        with self._lock:
            chunks = self._opened()
            last = self.bounds()[1]
            if number <= last:
                return False
            if number > last + 1:
                msg = (
                    f"{self._where(self._name)} ends at {last}, so record {number} cannot follow: records are missing; "
                    "run `godwit check FOLDER` to see what can be done"
                )
                raise StateError(msg)
            begin = self._begin(last + 1) if not chunks or chunks[-1].full else None
            encoded = encode(record, {} if begin else self._known)
            data = frames.pack_record(number, encoded)
            chunk = self._write(begin, data)
            frame = next(frames.frames(data, chunk.size - len(data), self._name))
            chunk.records.append(frame)
            self._known.update((one, len(chunk.defined) + k) for k, one in enumerate(encoded.fresh))
            chunk.defined += encoded.fresh
            self._tail.keep(number, KeptRecord(len(data), encoded, chunk.defined))
            return True

    def drop(self, below: int) -> range:
        """Nothing below a number is kept; chunks that hold nothing else go. The newest record stays: it says where the
        log stands. Returns the numbers that went."""
        with self._lock:
            chunks = self._opened()
            first, last = self.bounds()
            below = min(below, last)
            if below <= first:
                return range(0)
            begin = self._begin(last + 1, below) if chunks[-1].full else None
            self._write(begin, b"" if begin else frames.pack(FLOOR, below)).floor = below
            self._tail.drop(below)
            self._remove_below(below)
            return range(first, below)

    def _begin(self, first: int, floor: int | None = None) -> tuple[Chunk, bytes]:
        """The next chunk, and what it begins with."""
        previous = self._chunks[-1] if self._chunks else None
        floor = floor or (1 if previous is None else previous.floor)
        before = 0 if previous is None else previous.first
        return Chunk(first, previous=before, floor=floor), frames.pack_begin(first, before, floor)

    def _write(self, begin: tuple[Chunk, bytes] | None, data: bytes) -> Chunk:
        """Append to the last chunk, or to a new one; it is durable as asked when this returns, or not there at all."""
        assert self._chunks is not None
        chunk, head = (self._chunks[-1], b"") if begin is None else begin
        file = self._file(chunk.first)
        if self._group is not None:
            self._group.settle()  # a record must not be there before the files that it names
        there = self._disk.size(file) if begin is None else 0
        if there != chunk.size or (begin and self._disk.exists(file)):
            self._writing, self._chunks = False, None
            msg = (
                f"{self._where(file)} is not as this process left it: two writers share this log, or the disk has lost "
                "a write; run one process per fleet, and see `godwit check FOLDER`"
            )
            raise StateError(msg)
        try:
            self._disk.append(file, head + data)
            if self._group is not None:
                self._group.note(file, grown=file == self._synced)
                self._group.wait()
                self._synced = file
        except OSError:
            self._take_back(file, chunk.size)
            raise
        chunk.size += len(head) + len(data)
        if begin is not None:
            if self._chunks:
                self._chunks[-1].close()
            self._chunks.append(chunk)
            self._known = {}
        return chunk

    def _take_back(self, file: str, size: int) -> None:
        """What could not be written as a whole was never there."""
        try:
            self._disk.truncate(file, size) if size else self._disk.delete(file)
        except OSError:
            self._writing, self._chunks = False, None  # the next append has to do it, or to fail as well

    def _opened(self) -> list[Chunk]:
        """Become the log's writer: cut off the torn end of the one before, and finish what it was removing."""
        if self._writing:
            return self._chunks or []
        self._chunks = chunks = self._listed()
        if chunks:
            chunk, file = chunks[-1], self._file(chunks[-1].first)
            if chunk.size == 0:
                self._disk.delete(file)
                floor = chunks.pop().floor
                if chunks:
                    chunks[-1].floor = max(floor, chunks[-1].floor)
            elif self._disk.size(file) > chunk.size:
                self._disk.truncate(file, chunk.size)
        self._known = {one: k for k, one in enumerate(chunks[-1].defined)} if chunks else {}
        self._writing = True
        if chunks:
            self._remove_below(chunks[-1].floor)
        return chunks

    def _remove_below(self, floor: int) -> None:
        assert self._chunks is not None
        while len(self._chunks) > 1 and self._chunks[1].first <= floor:
            self._disk.delete(self._file(self._chunks[0].first))
            del self._chunks[0]
