"""Where the rows of a key lie in a large segment: found without looking at the others.

A segment's rows are kept once more, in the order of their keys' hashes, in a file that is mapped into memory and has no
name: looking up a few keys touches the pages they lie in, whether there are ten thousand keys or ten million. It is
made when the segment is first looked into, and goes when others are looked into instead.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import segments
from godwit.storage.log import Segment

#: smaller segments are looked through: that takes no longer
INDEXED = 20_000
#: number of indexes that are kept
MOST = 64
_HASH = "__hash"


class KeyIndexes:
    """The indexes of segments that were looked into last. Any thread may ask."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        #: (files, keys) -> (hashes in order, rows in the same order)
        self._known: OrderedDict[tuple[str, ...], tuple[np.ndarray, pa.Table]] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, segment: Segment, keys: Sequence[str], wanted: np.ndarray) -> pa.Table:
        """The rows of a segment whose keys have one of these hashes."""
        name = (str(id(segment.store)), *segment.files, *map(str, segment.sums), *keys)
        with self._lock:
            known = self._known.get(name)
        if known is None:
            known = _sorted(segment, keys)
        with self._lock:
            self._known[name] = known
            self._known.move_to_end(name)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        hashes, table = known
        begin, end = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
        found = np.flatnonzero(end > begin)
        places = [np.arange(begin[n], end[n]) for n in found]
        return table.take(np.concatenate(places) if places else np.empty(0, np.int64))


def hashes_of(table: pa.Table, keys: Sequence[str]) -> np.ndarray:
    """A number for the key of each row, equal for equal keys."""
    found = np.zeros(table.num_rows, np.uint64)
    for key in keys:
        column = table[key]
        if pa.types.is_integer(column.type):
            values = pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy()
        else:
            values = pc.fill_null(pc.cast(column, pa.string()), "").to_pandas().to_numpy(object)
        found = found * np.uint64(31) + pd.util.hash_array(values, categorize=False)
    return found


def _sorted(segment: Segment, keys: Sequence[str]) -> tuple[np.ndarray, pa.Table]:
    table = pa.concat_tables(segments.tables_of(segment)).combine_chunks()
    hashes = hashes_of(table, keys)
    order = np.argsort(hashes, kind="stable")
    table = table.take(order).append_column(_HASH, pa.array(hashes[order]))
    handle, path = tempfile.mkstemp(prefix="godwit-keys-", suffix=".arrow")
    os.close(handle)
    try:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        mapped = pa.ipc.open_file(pa.memory_map(path)).read_all()
    finally:
        os.unlink(path)  # the mapping keeps it
    return mapped[_HASH].combine_chunks().to_numpy(), mapped.drop_columns([_HASH])


#: of this process
INDEXES = KeyIndexes()
