"""Recent tables: what was written or read a moment ago need not be read from its file again.

State of few rows is read in every micro-batch, file by file. A table is found by what the file system says of its file
(device, inode, size, time of writing): links to a file lead to the same table, and a file that was written again leads
to none.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

#: larger tables are not kept, and all together take no more than that (bytes)
MOST_EACH, MOST = 2_000_000, 64_000_000

Identity = tuple[int, int, int, int]


def read_file(file: str, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some of its columns."""
    # Not `read_table`: it looks for a dataset first, which costs two thirds of a small file's time.
    return pq.ParquetFile(file).read(columns, use_threads=False)


class Recent:
    """The newest small tables, by file."""

    def __init__(self, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, most_each
        self._tables: OrderedDict[Identity, pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, file: str, table: pa.Table) -> None:
        """What now lies in a file."""
        identity = _identity(file)
        with self._lock:
            if table.nbytes > self._most_each or identity in self._tables:
                return
            self._tables[identity] = table
            self._bytes += table.nbytes
            while self._bytes > self._most:
                _, oldest = self._tables.popitem(last=False)
                self._bytes -= oldest.nbytes

    def table(self, file: str, read: Callable[[str], pa.Table] = read_file) -> pa.Table:
        """What lies in a file: as it was kept, or else read and kept."""
        found = self._find(file)
        if found is None:
            found = read(file)
            self.keep(file, found)
        return found

    def at_hand(self, file: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The same (at least these columns) for one who looks at it once: what is read is not kept."""
        found = self._find(file)
        return read_file(file, columns) if found is None else found

    def _find(self, file: str) -> pa.Table | None:
        identity = _identity(file)
        with self._lock:
            found = self._tables.get(identity)
            if found is not None:
                self._tables.move_to_end(identity)
            return found


#: those of this process, whichever region wrote or read them
RECENT = Recent()


def _identity(file: str) -> Identity:
    known = os.stat(file)
    return known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns
