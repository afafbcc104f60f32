"""Generated streams as Parquet files: seeded, with disorder, the same files for us and for plain Spark.

Rows come at a steady rate of event time. Each is out of order by up to `JITTER`; the watermark (theirs) and the
disorder (ours) are larger, so no row is late for anybody. A last file with one row a device an hour later lets every
window before it close, in both engines alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 20260115
START_US = 1_767_225_600_000_000
JITTER_US = 1_000_000
#: the stream's disorder and the native watermark's delay
DISORDER = "2 seconds"
DEVICES = 64
ROW_GROUP = 128_000
SCHEMA = "device string, key bigint, value int, ts timestamp"
ARROW = pa.schema(
    [("device", pa.string()), ("key", pa.int64()), ("value", pa.int32()), ("ts", pa.timestamp("us", tz="UTC"))]
)
HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Stream:
    """What a generated stream looks like."""

    name: str
    keys: int
    #: rows of one file, and how many files a micro-batch takes
    rows_a_file: int = 500_000
    files_a_batch: int = 2
    #: rows a second of event time
    rate: int = 80_000
    devices: int = DEVICES

    @property
    def rows_a_batch(self) -> int:
        return self.rows_a_file * self.files_a_batch


def write(stream: Stream, folder: Path, rows: int, seed: int = SEED) -> list[Path]:
    """Write files with `rows` rows in all (to whole files), and the last one that closes the windows."""
    folder.mkdir(parents=True, exist_ok=True)
    # A name is no number: hash() differs between processes, this does not.
    rng = np.random.default_rng([seed, *stream.name.encode()])
    files = []
    for number, start in enumerate(range(0, rows, stream.rows_a_file)):
        files.append(folder / f"{number:05d}.parquet")
        _save(_rows(stream, rng, start, min(stream.rows_a_file, rows - start)), files[-1])
    files.append(folder / f"{len(files):05d}.parquet")
    _save(_last(stream, START_US + rows * 1_000_000 // stream.rate + HOUR_US), files[-1])
    return files


def batches(stream: Stream, rows: int, count: int, seed: int = SEED) -> Iterator[pa.Table]:
    """The same rows as tables, for devices that push."""
    rng = np.random.default_rng([seed, *stream.name.encode()])
    for number in range(count):
        yield _rows(stream, rng, number * rows, rows)


def _rows(stream: Stream, rng: np.random.Generator, start: int, rows: int) -> pa.Table:
    at = START_US + (start + np.arange(rows)) * 1_000_000 // stream.rate + rng.integers(0, JITTER_US, rows)
    return table(
        rng.integers(0, stream.devices, rows),
        rng.integers(0, stream.keys, rows),
        rng.integers(0, 1000, rows),
        at,
    )


def _last(stream: Stream, at_us: int) -> pa.Table:
    devices = np.arange(stream.devices)
    return table(devices, devices, np.zeros(stream.devices, dtype=np.int64), np.full(stream.devices, at_us))


def table(devices: np.ndarray, keys: np.ndarray, values: np.ndarray, at: np.ndarray) -> pa.Table:
    names = pa.array([f"d{k}" for k in range(int(devices.max()) + 1)])
    columns = [
        names.take(pa.array(devices)),
        pa.array(keys, pa.int64()),
        pa.array(values.astype(np.int32)),
        pa.array(at, pa.timestamp("us", tz="UTC")),
    ]
    return pa.table(columns, schema=ARROW)


def _save(rows: pa.Table, file: Path) -> None:
    pq.write_table(rows, file, row_group_size=ROW_GROUP, compression="lz4")
