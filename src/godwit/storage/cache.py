"""Recent tables: what was written or read a moment ago need not be read from its file again.

State of few rows is read in every micro-batch, file by file. A table is found by its reference and checksum: a file
that was written again under the same name leads to none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import pyarrow as pa

#: larger tables are not kept, and all together take no more than that (bytes)
MOST_EACH, MOST = 2_000_000, 64_000_000
#: so many files are remembered as verified
MOST_VERIFIED = 100_000

Key = tuple[str, int | None]


class TableCache:
    """The newest small tables of a store, by reference and checksum."""

    def __init__(self, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, most_each
        self._tables: OrderedDict[Key, pa.Table] = OrderedDict()
        self._verified: OrderedDict[Key, None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, reference: str, checksum: int | None, table: pa.Table) -> None:
        """What now lies in a file."""
        with self._lock:
            self._drop((reference, checksum))
            if table.nbytes > self._most_each:
                return
            self._tables[reference, checksum] = table
            self._bytes += table.nbytes
            while self._bytes > self._most:
                _, oldest = self._tables.popitem(last=False)
                self._bytes -= oldest.nbytes

    def find(self, reference: str, checksum: int | None) -> pa.Table | None:
        with self._lock:
            found = self._tables.get((reference, checksum))
            if found is not None:
                self._tables.move_to_end((reference, checksum))
            return found

    def link(self, reference: str, new: str) -> None:
        """The same file has a second name: its table is found under both."""
        with self._lock:
            known = [(key, table) for key, table in reversed(self._tables.items()) if key[0] == reference]
            for (_, checksum), table in known[:1]:
                self._drop((new, checksum))
                self._tables[new, checksum] = table
                self._bytes += table.nbytes

    def first_time(self, reference: str, checksum: int) -> bool:
        """Whether a file was not looked at before; from now on it was."""
        with self._lock:
            known = (reference, checksum) in self._verified or (reference, checksum) in self._tables
            self._verified[reference, checksum] = None
            if len(self._verified) > MOST_VERIFIED:
                self._verified.popitem(last=False)
            return not known

    def _drop(self, key: Key) -> None:
        old = self._tables.pop(key, None)
        if old is not None:
            self._bytes -= old.nbytes
