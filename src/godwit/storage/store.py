"""A fleet's store: logs, segments and documents on one disk, durable as asked. One per fleet; readers may open others.

durability="process"   what was acknowledged survives the end of the process (kill -9)
durability="power"     it also survives a lost power supply: contents and names are synced before anyone is told,
                       in rounds that all writers who wait share (`sync.py`)
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from godwit.errors import MissingFileError, StateError, StoreAwayError
from godwit.storage import names
from godwit.storage.base import Disk, Durability
from godwit.storage.cache import TableCache
from godwit.storage.chunk_log import ChunkLog
from godwit.storage.local import LocalDisk
from godwit.storage.log import Log
from godwit.storage.memory import MemoryDisk
from godwit.storage.message_log import MessageLog
from godwit.storage.object_disk import ObjectDisk
from godwit.storage.objects import Objects
from godwit.storage.record_files import RecordFiles
from godwit.storage.records import pack, unpack
from godwit.storage.sync import GroupSync

#: of larger files, the size and the end (the Parquet footer) are summed up, not the whole
WHOLE, END = 1_000_000, 64_000
#: how often a log that another process writes to is looked at (seconds)
LOOK_EVERY = 0.01
REMEDY = "run `godwit check FOLDER` to see what is damaged and what --repair can rebuild"


class ServedLogs(Protocol):
    """Logs that a server keeps: a broker, or an object store."""

    #: called with the name of a log that another process has appended to, by servers that publish such news; must not
    #: wait for anything
    on_append: Callable[[str], None]

    def log(self, name: str, *, shared: bool) -> MessageLog: ...

    def remove(self, folder: str) -> None:
        """The logs below a folder, with all records."""

    def refresh(self, logs: Collection[str] = ()) -> None:
        """From now on readers see what was appended before, in these logs or in all; OSError: it cannot be known."""

    def claim(self, region: str) -> None:
        """A region's process joins: what it writes lies where its URL says. ConfigError: it lies elsewhere."""

    def part(self) -> None:
        """This process is about to end: from now on nobody waits for a server that is away."""

    def close(self) -> None: ...


class Store:
    """See `base.LogStore`, `base.SegmentStore` and `base.DocumentStore`."""

    def __init__(
        self,
        disk: Disk,
        durability: Durability = "process",
        *,
        alone: bool = False,
        served: ServedLogs | None = None,
        objects: Objects | None = None,
    ) -> None:
        """`served`: keeps the logs; documents and segments lie on the disk in any case. `objects`: where processes
        agree on who has a name, if that is not decided by locks of the file system."""
        if durability not in ("process", "power"):
            msg = f"durability {durability!r} is unknown; use 'process' or 'power'"
            raise StateError(msg)
        #: `alone`: no other process writes to logs of one writer, so that nobody needs to look whether it has
        self.disk, self.durability, self.alone = disk, durability, alone
        self.cache = TableCache()
        self.group = GroupSync(disk.sync) if durability == "power" else None
        self._news = threading.Condition()
        self.served, self.objects = served, objects
        self._logs: dict[str, ChunkLog | RecordFiles | MessageLog] = {}
        #: changes whenever a log may have come or gone
        self.births = 0
        #: files of lines that were added to
        self._lines: set[str] = set()

    @staticmethod
    def local(folder: str | Path, durability: Durability = "process", *, alone: bool = False) -> Store:
        return Store(LocalDisk(folder), durability, alone=alone)

    @staticmethod
    def memory() -> Store:
        return Store(MemoryDisk())

    def where(self, name: str) -> str:
        """How messages call a file of the store."""
        return name if name[:1] == "/" else f"{self.disk.root}/{name}"

    # --- logs

    def log(self, name: str, *, create: bool = False) -> Log:
        """A log by its name; `create`: it is known to exist from now on, even while it is empty."""
        if create:
            self.disk.make_folder(name)
            self._noticed()
        return Log(self, name)

    def _log(self, name: str) -> ChunkLog | RecordFiles | MessageLog:
        found = self._logs.get(name)
        if found is None:
            with self._news:
                found = self._logs.setdefault(name, self._made(name))
        return found

    def _made(self, name: str) -> ChunkLog | RecordFiles | MessageLog:
        if self.served is not None:
            return self.served.log(name, shared=name in names.SHARED)
        if name in names.SHARED:
            return RecordFiles(self.disk, name, self._read, self._replace, self._enter, self.where)
        return ChunkLog(self.disk, name, self.group, self.where, alone=self.alone)

    def forget(self, folder: str) -> None:
        """The logs below a folder are no longer what is known of them: somebody has moved them."""
        self._noticed()
        with self._news:
            for name in [n for n in self._logs if n == folder or n.startswith(f"{folder}/")]:
                del self._logs[name]

    def remove(self, folder: str) -> None:
        """With all logs and files in it."""
        self.forget(folder)
        if self.served is not None:
            self.served.remove(folder)
        self.disk.delete_folder(folder)
        self._noticed()

    def _noticed(self) -> None:
        with self._news:
            self.births += 1

    def refresh(self, *logs: str) -> None:
        """From now on readers see what was appended before, in these logs or in all; OSError: it cannot be known."""
        if self.served is not None:
            self.served.refresh(logs)

    def part(self) -> None:
        """This process is about to end: from now on nobody waits for a server that is away; OSError at once."""
        if self.served is not None:
            self.served.part()

    def close(self) -> None:
        """Hang up, if somebody else keeps the logs."""
        if self.served is not None:
            self.served.close()

    def append_record(self, log: str, number: int, record: Mapping[str, Any]) -> None:
        if not self.try_append(log, number, record):
            where = self.where(log)
            msg = f"{where} has a record {number} already: two writers share this log; run one process per fleet"
            raise StateError(msg)

    def try_append(self, log: str, number: int, record: Mapping[str, Any]) -> bool:
        """Write a record whole, or not at all if its number is taken: then False."""
        if number == 1 and self.served is not None:
            self.disk.write(f"{log}/{names.MARK}", b"")  # whoever looks which logs there are looks for folders
        if not self._log(log).append(number, record):
            return False
        with self._news:
            self._news.notify_all()
        return True

    def read_record(self, log: str, number: int) -> dict[str, Any] | None:
        return self._log(log).read(number)

    def record_bytes(self, log: str, number: int) -> int:
        """How large a record is on disk."""
        return self._log(log).record_bytes(number)

    def has_record(self, log: str, number: int) -> bool:
        return self._log(log).has(number)

    def reaches(self, log: str, number: int) -> bool:
        """Whether there is a record of that number, or was before the log was cut, below a later one."""
        known = self._log(log)
        return known.reaches(number) if isinstance(known, ChunkLog) else known.has(number) or known.floor > number

    def bounds(self, log: str) -> tuple[int, int]:
        return self._log(log).bounds()

    def bounds_after(self, log: str, number: int) -> tuple[int, int]:
        """`bounds`, for who will read all records past a number: one trip to a far server for both, if they are few."""
        known = self._log(log)
        return known.bounds_after(number) if isinstance(known, MessageLog) else known.bounds()

    def numbers(self, log: str) -> list[int]:
        return self._log(log).numbers()

    def floor(self, log: str) -> int:
        return self._log(log).floor

    def drop(self, log: str, below: int) -> Iterator[int]:
        yield from self._log(log).drop(below)

    def wait(self, log: str, after: int, timeout: float) -> bool:
        until = time.monotonic() + timeout
        with self._news:
            while not self.has_record(log, after + 1):
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._news.wait(min(left, LOOK_EVERY))
        return True

    # --- documents

    def put_document(self, name: str, value: Any) -> None:
        self._replace(f"{name}.json", pack(value))

    def get_document(self, name: str) -> Any | None:
        data = self._read(f"{name}.json")
        return None if data is None else unpack(data, self.where(f"{name}.json"))

    def document_numbers(self, folder: str) -> list[int]:
        """The documents in a folder whose names are numbers, in order."""
        there = (name[:-5] for name in self.disk.names(folder) if name.endswith(".json"))
        return sorted(n for n in map(names.number_of, there) if n is not None)

    def delete_document(self, name: str) -> None:
        self.disk.delete(f"{name}.json")

    # --- segments

    def put_table(self, reference: str, table: pa.Table, row_groups: Sequence[int] = ()) -> tuple[int, int]:
        """Keep a table as a Parquet file; its size and checksum. `row_groups`: how many rows go into each."""
        # Not lz4: some blocks that Arrow's encoder ends without literals are refused by the decoder that Spark brings.
        buffer = pa.BufferOutputStream()
        with pq.ParquetWriter(buffer, table.schema, compression="snappy", use_dictionary=True) as out:
            start = 0
            for rows in row_groups or (table.num_rows,):
                out.write_table(table.slice(start, rows), row_group_size=max(rows, 1))
                start += rows
        data = memoryview(buffer.getvalue())
        summed = checksum(data)
        self.disk.write(reference, data)  # type: ignore[arg-type]
        self._note(reference)
        self.cache.keep(reference, summed, table)
        return len(data), summed

    def take_in(self, folder: str) -> list[str]:
        """References of the files that Spark has written into a folder (`path`)."""
        found = [file for file in self.disk.take_in(folder) if file.endswith(".parquet")]
        for file in found:
            self._note(file)
        return found

    def table(
        self, reference: str, known: int | None = None, columns: Sequence[str] | None = None, *, keep: bool = True
    ) -> pa.Table:
        """What lies in a Parquet file (at least these columns); small ones are kept in memory if `keep`."""
        found = self.cache.find(reference, known)
        if found is not None:
            return found
        table = self._table(reference, known, columns)
        if columns is None and keep:
            self.cache.keep(reference, known, table)
        return table

    def _table(self, reference: str, known: int | None, columns: Sequence[str] | None) -> pa.Table:
        try:
            # (of an object, to be told its size may take as long as to get it)
            if not isinstance(self.disk, ObjectDisk) and self.disk.size(reference) > WHOLE:
                if known is not None:
                    self.verify(reference, known)
                source: Any = self.disk.path(reference)
            else:
                data = self.disk.read(reference)
                if known is not None and checksum(data) != known:
                    self._damaged(reference)
                source = pa.BufferReader(data)
            # Not `read_table`: it looks for a dataset first, which costs two thirds of a small file's time.
            return pq.ParquetFile(source).read(columns, use_threads=False)
        except FileNotFoundError as gone:
            msg = f"{self.where(reference)} is missing; {REMEDY}"
            raise MissingFileError(msg) from gone
        except StoreAwayError:
            raise
        except (OSError, pa.ArrowException) as fault:
            msg = f"{self.where(reference)} cannot be read ({fault}); {REMEDY}"
            raise StateError(msg) from fault

    def checksum(self, reference: str) -> int:
        """Of a file as it is now; of an object, of the copy that whoever wants to know reads next."""
        if not isinstance(self.disk, ObjectDisk) and self.disk.size(reference) <= WHOLE:
            return checksum(self.disk.read(reference))
        with open(self.disk.path(reference), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if size <= WHOLE else size - END)
            return zlib.crc32(file.read(), 0 if size <= WHOLE else size & 0xFFFFFFFF)

    def verify(self, reference: str, known: int) -> None:
        """Raise if a file is not what was written; looked up once."""
        if not self.cache.first_time(reference, known):
            return
        try:
            if self.checksum(reference) != known:
                self._damaged(reference)
        except FileNotFoundError as gone:
            msg = f"{self.where(reference)} is missing; {REMEDY}"
            raise MissingFileError(msg) from gone

    def _damaged(self, reference: str) -> None:
        msg = f"{self.where(reference)} is damaged: its checksum does not match; {REMEDY}"
        raise StateError(msg)

    def link(self, reference: str, new: str) -> None:
        def act() -> None:
            self.disk.delete(new)  # of an attempt that did not come to its end
            self.disk.link(reference, new)

        act() if self.group is None else self.group.note_entry(act, new)
        self.cache.link(reference, new)

    @property
    def links(self) -> bool:
        """Whether a link costs less than a copy."""
        return self.disk.hard_links

    def path(self, reference: str) -> str:
        return self.disk.path(reference)

    def reference(self, path: str | Path) -> str:
        root, text = f"{self.disk.root}/", str(path)
        return text.removeprefix(root)

    def delete(self, reference: str) -> None:
        """A recorded file that lies outside of the store is never touched."""
        if reference[:1] != "/":
            self.cache.drop(reference)
            self.disk.delete(reference)

    def exists(self, reference: str) -> bool:
        return self.disk.exists(reference)

    def size(self, reference: str) -> int:
        return self.disk.size(reference)

    # --- lines of text

    def append_lines(self, name: str, lines: Sequence[str]) -> None:
        """Add to a file that people read, too: not atomic, so readers pass over a last line that was cut off."""
        if name not in self._lines and not (self._read(name) or b"\n").endswith(b"\n"):
            lines = ["", *lines]  # after one that was cut off
        self._lines.add(name)
        self.disk.append(name, "".join(f"{line}\n" for line in lines).encode())

    def read_lines(self, name: str) -> list[str]:
        return (self._read(name) or b"").decode(errors="replace").splitlines()

    def replace_lines(self, name: str, lines: Sequence[str]) -> None:
        self._replace(name, "".join(f"{line}\n" for line in lines).encode())

    # --- atomic steps

    def _read(self, name: str) -> bytes | None:
        try:
            return self.disk.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except StoreAwayError:  # (of a server: it says itself what is wrong)
            raise
        except OSError as fault:
            msg = f"{self.where(name)} cannot be read ({fault}); mend the disk, or restore the folder from a copy"
            raise StateError(msg) from fault

    def _replace(self, name: str, data: bytes) -> None:
        if isinstance(self.disk, ObjectDisk):
            self.disk.replace(name, data)
            return
        draft = f"{name}.tmp"
        self.disk.write(draft, data)
        self._enter(draft, name, self.disk.rename)

    def _enter(self, draft: str, name: str, act: Callable[[str, str], None]) -> None:
        """Give a draft its name; if asked for, the content is durable before, and the name after it."""
        if self.group is None:
            act(draft, name)
            return
        self.group.note(draft)
        self.group.wait()
        self.group.note_entry(lambda: act(draft, name), name)
        self.group.wait()

    def _note(self, reference: str) -> None:
        if self.group is not None:
            self.group.note(reference, staged=True)


def checksum(data: bytes | memoryview) -> int:
    """Of a file's content; of a large one, of its size and its end."""
    if len(data) <= WHOLE:
        return zlib.crc32(data)
    return zlib.crc32(data[len(data) - END :], len(data) & 0xFFFFFFFF)
