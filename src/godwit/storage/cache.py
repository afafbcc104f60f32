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
#: limit of files remembered as verified
MOST_VERIFIED = 20_000


class TableCache:
    """The newest small tables of a store."""

    def __init__(self, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, most_each
        #: reference -> (checksum, table)
        self._tables: OrderedDict[str, tuple[int | None, pa.Table]] = OrderedDict()
        self._verified: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, reference: str, checksum: int | None, table: pa.Table) -> None:
        """What now lies in a file."""
        with self._lock:
            self._drop(reference)
            if table.nbytes > self._most_each:
                return
            self._tables[reference] = (checksum, table)
            self._bytes += table.nbytes
            while self._bytes > self._most:
                self._drop(next(iter(self._tables)))

    def find(self, reference: str, checksum: int | None) -> pa.Table | None:
        with self._lock:
            found = self._tables.get(reference)
            if found is None or found[0] != checksum:
                return None
            self._tables.move_to_end(reference)
            return found[1]

    def link(self, reference: str, new: str) -> None:
        """The same file has a second name: its table is found under both."""
        found = self._tables.get(reference)
        if found is not None:
            self.keep(new, *found)

    def drop(self, reference: str) -> None:
        with self._lock:
            self._drop(reference)

    def first_time(self, reference: str, checksum: int) -> bool:
        """Whether a file was not looked at before; from now on it was."""
        with self._lock:
            known = (reference, checksum) in self._verified
            self._verified[reference, checksum] = None
            if len(self._verified) > MOST_VERIFIED:
                self._verified.popitem(last=False)
            return not known

    def _drop(self, reference: str) -> None:
        old = self._tables.pop(reference, None)
        if old is not None:
            self._bytes -= old[1].nbytes
