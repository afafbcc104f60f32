"""Source logs: the rows of a stream in one region, and the dead-letter log of rows that did not fit (`schema.py`).

Appends carry the device's sequence number, so that a device that sends again after a crash repeats nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine.segments import write_table
from godwit.ids import DeviceId, RegionId
from godwit.ingest.rates import Meter
from godwit.ingest.schema import Schema
from godwit.protocol.watermarks import Mark
from godwit.region.poll import source_log, source_record
from godwit.storage.log import Log, Segment


class SourceLog:
    """The log of one stream in one region."""

    def __init__(self, root: Path, region: RegionId, schema: Schema, meter: Meter) -> None:
        self.schema, self._meter = schema, meter
        self.folder = source_log(root, region, schema.stream.id)
        self.log = Log(self.folder)

    def append(
        self, table: pa.Table, marks: Mapping[DeviceId, Mark], rows: dict[str, int], sequence: dict[str, int]
    ) -> int:
        """Rows of some devices and how far each has come: one atomic entry."""
        segment = write_table(table, self.folder / "data" / f"{self.log.last + 1:010d}", self.schema.json)
        self._meter.count(self.schema.stream.id, rows, table.nbytes)
        return self._append(segment, marks, rows, newest(table, self.schema.stream.time), sequence)

    def append_files(
        self,
        segment: Segment,
        marks: Mapping[DeviceId, Mark],
        rows: dict[str, int],
        at_us: int,
        sequence: dict[str, int] | None = None,
    ) -> int:
        """Recorded files become part of the log as they are; they are not copied."""
        self._meter.count(self.schema.stream.id, rows, segment.bytes)
        return self._append(segment, marks, rows, at_us, sequence or {})

    def _append(
        self,
        segment: Segment | None,
        marks: Mapping[DeviceId, Mark],
        rows: dict[str, int],
        newest_us: int | None,
        sequence: dict[str, int],
    ) -> int:
        told = {str(device): mark for device, mark in marks.items()}
        return self.log.append(source_record(segment, told, rows, newest_us, sequence))


class DeadLetters:
    """Rows that fit no schema, as JSON lines with the reason. All are counted; the newest stay readable."""

    #: so large, the file becomes `dead_letters.old.jsonl`, and what was there goes
    MOST_BYTES = 64_000_000

    def __init__(self, root: Path) -> None:
        self._path, self._old = root / "dead_letters.jsonl", root / "dead_letters.old.jsonl"
        self._counts = root / "dead_letters.json"

    def add(self, stream: str, dead: list[dict[str, Any]]) -> None:
        with self._path.open("a") as file:
            for entry in dead:
                file.write(json.dumps({"stream": stream, **entry}, default=str) + "\n")
            full = file.tell() > self.MOST_BYTES
        counts = self.counts()
        counts[stream] = counts.get(stream, 0) + len(dead)
        draft = self._counts.with_suffix(".tmp")
        draft.write_text(json.dumps(counts))
        draft.rename(self._counts)
        if full:
            self._path.rename(self._old)

    def counts(self) -> dict[str, int]:
        """Rows that did not fit, by stream, since ever."""
        found: dict[str, int] = json.loads(self._counts.read_text()) if self._counts.exists() else {}
        return found

    def read(self) -> list[dict[str, Any]]:
        """The newest ones, oldest first."""
        there = [path for path in (self._old, self._path) if path.exists()]
        return [json.loads(line) for path in there for line in path.read_text().splitlines()]


def newest(table: pa.Table, time: str) -> int | None:
    """The greatest event time, in microseconds."""
    if table.num_rows == 0:
        return None
    value = pc.max(table.column(time).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())).as_py()
    return None if value is None else int(value)


def newest_by_device(table: pa.Table, time: str, device: str) -> list[tuple[DeviceId, int, int]]:
    """(device, its greatest event time, its number of rows)"""
    micros = table.column(time).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    names, said = table.column(device), None
    if pa.types.is_dictionary(names.type):
        names = names.unify_dictionaries()
        said = names.chunk(0).dictionary if names.num_chunks else pa.array([], pa.string())
        names = pa.chunked_array([chunk.indices for chunk in names.chunks], pa.int32())
    grouped = pa.table({"d": names if said is not None else names.cast(pa.string()), "t": micros}).group_by("d")
    found = grouped.aggregate([("t", "max"), ("t", "count")]).to_pylist()
    called = None if said is None else said.to_pylist()
    return [(DeviceId(row["d"] if called is None else called[row["d"]]), row["t_max"], row["t_count"]) for row in found]
