"""Replays recorded files, in the order given: as fast as the regions read, or N times as fast as it happened.

Parquet files that fit the stream's schema become part of the source log as they are; others are cast. CSV and JSON
lines are read by Spark; lines that do not fit go to the dead-letter log. A replay that is broken off and run again with
the same files and settings goes on where it was.
"""

from __future__ import annotations

import glob
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from godwit.api.core import FleetCore
from godwit.engine import segments
from godwit.errors import SourceError
from godwit.ids import StreamId
from godwit.ingest.sources.feeder import CORRUPT, Feeder, Newest
from godwit.storage.log import Segment
from godwit.storage.place import Place

#: of event time in one entry, when a replay keeps pace
SLICE_US = 1_000_000
#: sequence numbers that belong to one file
PER_FILE = 1 << 32

READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}


class Replay:
    """Feeds a stream from files. `run` does it here and now; `start` beside the caller."""

    def __init__(
        self,
        fleet: FleetCore,
        stream: StreamId,
        files: str | Path | Sequence[str | Path],
        *,
        speed: float | None = None,
        ahead: int = 8,
        name: str = "replay",
        header: bool = True,
    ) -> None:
        if speed is not None and speed <= 0:
            msg = f"a replay at {speed:g} times real time never ends; give a positive speed, or none for full speed"
            raise SourceError(msg)
        self._fleet, self._speed, self._header = fleet, speed, header
        self._feeder = Feeder(fleet, stream, name, ahead)
        self.files = _found(files)
        self._began: tuple[float, int] | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.failure: Exception | None = None

    @property
    def rows(self) -> int:
        return self._feeder.rows

    def run(self) -> int:
        """Replay everything; returns the number of rows that came in."""
        with ThreadPoolExecutor(1) as ahead:  # looks into the next file while the regions read this one
            looks: dict[int, Future[Newest | None]] = {}
            for index, file in enumerate(self.files):
                if self._stopping.is_set():
                    break
                base = index * PER_FILE
                if self._feeder.through(base + PER_FILE - 1):
                    continue
                look = looks.pop(index, None) or ahead.submit(self._look, file)
                if index + 1 < len(self.files):
                    looks[index + 1] = ahead.submit(self._look, self.files[index + 1])
                if (newest := look.result()) is not None:
                    self._feeder.wait(may_step=self._thread is None)
                    self._feeder.feed(self._recorded(file), base + 1, staged=False, newest=newest)
                else:
                    self._cast(file, base)
        return self.rows

    def _recorded(self, file: Path) -> Segment:
        store = self._fleet.store
        name = store.reference(file.resolve())
        rows, size = pq.read_metadata(file).num_rows, file.stat().st_size
        return Segment((name,), rows, size, "", sums=(store.checksum(name),), store=store)

    def _look(self, file: Path) -> Newest | None:
        """How far each device has come in a file that can become part of the log as it is; None for any other."""
        if self._speed is None and READERS[file.suffix] == "parquet" and self._fits(file):
            return self._feeder.newest(self._recorded(file))
        return None

    def start(self) -> Replay:
        self._thread = threading.Thread(target=self._run, name=f"replay {self._feeder.stream}", daemon=True)
        self._thread.start()
        return self

    def wait(self) -> int:
        """Wait for the end of a replay that was started; raises what went wrong in it."""
        if self._thread is not None:
            self._thread.join()
        if self.failure is not None:
            raise self.failure
        return self.rows

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.failure = error

    def _fits(self, file: Path) -> bool:
        """Whether Spark can read the file under the stream's schema as it is, and no row lacks what rows need."""
        have = pq.read_schema(file)
        if any(f.name not in have.names or have.field(f.name).type != f.type for f in self._feeder.schema.arrow):
            return False
        footer = pq.read_metadata(file)
        places = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        told = [group.column(places[name]).statistics for name, _ in self._feeder.schema.needed for group in groups]
        return all(s is not None and s.null_count == 0 for s in told) and self._times_fit(groups, places)

    def _times_fit(self, groups: list[pq.RowGroupMetaData], places: dict[str, int]) -> bool:
        """Whether the footer says that no row's time is out of bounds."""
        schema = self._feeder.schema
        told = [group.column(places[schema.stream.time]).statistics for group in groups]
        if not all(s.has_min_max and s.physical_type == "INT64" for s in told):
            return False
        bounds = [(first, end) for first, end, _ in schema.times(self._fleet.gateway.now_us())]
        return not any(s.max_raw >= first and s.min_raw < end for s in told for first, end in bounds)

    def _cast(self, file: Path, base: int) -> None:
        """Files of any format, cast by Spark; in slices of event time if the replay keeps pace."""
        frame = self._frame(file)
        staged = self._feeder.stage(frame, base + 1)
        if staged is None:
            return
        if self._speed is None:
            self._feeder.wait(may_step=self._thread is None)
            self._feeder.feed(staged, base + 1, staged=True)
            return
        table = pa.concat_tables(staged.tables(keep=False))
        for number, (at_us, part) in enumerate(_slices(table, self._feeder.schema.stream.time)):
            self._pace(at_us)
            if self._stopping.is_set():
                break
            self._feeder.wait(may_step=self._thread is None)
            path = Place(self._fleet.store, staged.files[0]).with_name(f"slice-{number:06d}")
            segment = segments.write_table(part, path, staged.schema)
            assert segment is not None
            self._feeder.feed(segment, base + 1 + number, staged=True)
        for f in staged.files:
            self._fleet.store.delete(f)

    def _frame(self, file: Path) -> DataFrame:
        schema, kind = self._feeder.schema.spark, READERS[file.suffix]
        reader = self._fleet.spark.read
        if kind == "parquet":
            frame = reader.parquet(str(file))
            missing = [name for name in schema.names if name not in frame.columns]
            if missing:
                lacking = f"lacks column {', '.join(missing)} of stream '{self._feeder.stream}'"
                msg = f"{file} {lacking}; it has {frame.columns}"
                raise SourceError(msg)
            return frame
        tolerant = StructType([*schema.fields]).add(CORRUPT, StringType())
        reader = reader.schema(tolerant).option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
        return (
            reader.csv(str(file), header=self._header, enforceSchema=False) if kind == "csv" else reader.json(str(file))
        )

    def _pace(self, at_us: int) -> None:
        """Sleep until an event of that time is due."""
        assert self._speed is not None
        began, first_us = self._began = self._began or (time.monotonic(), at_us)
        due = began + (at_us - first_us) / 1e6 / self._speed
        self._stopping.wait(max(due - time.monotonic(), 0.0))


def _found(files: str | Path | Sequence[str | Path]) -> list[Path]:
    patterns = [files] if isinstance(files, str | Path) else list(files)
    found = [Path(f) for pattern in patterns for f in sorted(glob.glob(str(pattern)))]
    if not found:
        msg = f"there is no file {', '.join(map(str, patterns))} to replay; give paths or patterns of recorded files"
        raise SourceError(msg)
    for file in found:
        if file.suffix not in READERS:
            msg = f"{file} cannot be replayed: its format is not known; use {', '.join(READERS)}"
            raise SourceError(msg)
    return found


def _slices(table: pa.Table, time_column: str) -> Iterator[tuple[int, pa.Table]]:
    """(its newest event, the rows) of every slice of time, oldest first; rows without a time come with the first."""
    micros = table.column(time_column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    first = pc.min(micros).as_py() or 0
    table = table.append_column("__at", pc.fill_null(micros, first)).sort_by("__at")
    at = table.column("__at").to_numpy()
    start = 0
    while start < table.num_rows:
        end = int(at.searchsorted(at[start] - at[start] % SLICE_US + SLICE_US))
        yield int(at[end - 1]), table.slice(start, end - start).drop_columns("__at")
        start = end
