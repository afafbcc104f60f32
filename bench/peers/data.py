"""The same generated rows in two layouts: many files in order of time, and Flink's two files, one per reader.

A micro-batch engine takes a few files at a time, in order. Flink's readers take whole files in any order, and a reader
that runs ahead in time makes others' rows late: so each of its two readers gets one file, with every other row. (It
must take a while: a reader that is done before the other one has begun takes the second file, too, and all is late.)
Times are whole milliseconds, because Flink's event time has no finer ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.engine import data

READERS = 2


@dataclass(frozen=True)
class PeerInput:
    """One stream's rows on disk."""

    stream: data.Stream
    #: for micro-batches
    many: Path
    #: for Flink: as many files as it has readers
    few: Path
    readers: int
    rows: int
    #: rows of this time (microseconds) only let windows close; what they would add is no result
    last_us: int


def write(stream: data.Stream, folder: Path, rows: int, readers: int = READERS) -> PeerInput:
    """At least so many rows (whole files), and a last one per device that closes all windows."""
    many, few, written = folder / "many", folder / "few", 0
    for place in (many, few):
        place.mkdir(parents=True)
    # Snappy: Flink's Parquet has no LZ4.
    writers = [pq.ParquetWriter(few / f"{n}.parquet", data.ARROW, compression="snappy") for n in range(readers)]
    for number, table in enumerate(_tables(stream, rows)):
        pq.write_table(table, many / f"{number:05d}.parquet", compression="snappy", row_group_size=data.ROW_GROUP)
        for n, writer in enumerate(writers):
            writer.write_table(table.take(pa.array(np.arange(n, table.num_rows, readers))))
        written += table.num_rows
    for writer in writers:
        writer.close()
    return PeerInput(stream, many, few, readers, written, _last_us(stream, rows))


def _tables(stream: data.Stream, rows: int) -> Iterator[pa.Table]:
    count = -(-rows // stream.rows_a_file)
    for table in data.batches(stream, min(stream.rows_a_file, rows), count):
        at = table.column_names.index("ts")
        yield table.set_column(at, table.schema.field(at), pc.floor_temporal(table.column(at), unit="millisecond"))
    devices = np.arange(stream.devices)
    nothing = np.zeros(stream.devices, dtype=np.int64)
    yield data.table(devices, devices, nothing, np.full(stream.devices, _last_us(stream, rows)))


def _last_us(stream: data.Stream, rows: int) -> int:
    return data.START_US + 2 * data.HOUR_US + rows // stream.rate * 1_000_000
