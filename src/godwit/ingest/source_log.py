"""Source logs: the rows of a stream in one region, and the dead-letter log of rows that did not fit (`schema.py`).

Appends carry the device's sequence number, so that a device that sends again after a crash repeats nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine.segments import write_table
from godwit.ids import DeviceId, RegionId
from godwit.ingest.rates import Meter
from godwit.ingest.schema import Schema, micros
from godwit.protocol.watermarks import Mark
from godwit.storage import names
from godwit.storage.log import Segment
from godwit.storage.place import Place
from godwit.storage.records import SourceRecord
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: up to this number of rows are looked at one by one
FEW = 500


class SourceLog:
    """The log of one stream in one region."""

    def __init__(
        self, store: Store, region: RegionId, schema: Schema, meter: Meter, now: Callable[[bool], float]
    ) -> None:
        """`now`: when an entry, with rows or without, enters the fleet (seconds); it never goes back."""
        self.schema, self._meter, self._now = schema, meter, now
        self.log = store.log(names.source_log(region, schema.stream.id))
        self._data = Place(store, f"{self.log.name}/data")
        #: called after every entry
        self.appended: Callable[[], None] = lambda: None

    def append(
        self,
        table: pa.Table,
        marks: Mapping[DeviceId, Mark],
        rows: dict[str, int],
        sequence: dict[str, int],
        late: Mapping[str, int] | None = None,
    ) -> int:
        """Rows of some devices and how far each has come: one atomic entry. `late`: see `SourceRecord`."""
        segment = write_table(table, self._data / names.number(self.log.last + 1), self.schema.json)
        self._meter.count(self.schema.stream.id, rows, table.nbytes)
        return self._append(segment, marks, rows, newest(table, self.schema.stream.time), sequence, late or {})

    def append_files(
        self,
        segment: Segment,
        marks: Mapping[DeviceId, Mark],
        rows: dict[str, int],
        at_us: int,
        sequence: dict[str, int] | None = None,
        late: Mapping[str, int] | None = None,
    ) -> int:
        """Recorded files become part of the log as they are; they are not copied."""
        self._meter.count(self.schema.stream.id, rows, segment.bytes)
        return self._append(segment, marks, rows, at_us, sequence or {}, late or {})

    def _append(
        self,
        segment: Segment | None,
        marks: Mapping[DeviceId, Mark],
        rows: dict[str, int],
        newest_us: int | None,
        sequence: dict[str, int],
        late: Mapping[str, int] = MappingProxyType({}),
    ) -> int:
        told = {str(device): mark for device, mark in marks.items()}
        number = self.log.append(
            SourceRecord(segment, told, rows, newest_us, sequence, self._now(segment is not None), late).to_json()
        )
        self.appended()
        return number


class DeadLetters:
    """Rows that fit no schema, as JSON lines with the reason. All are counted; the newest stay readable."""

    #: so large, the file becomes `dead_letters.old.jsonl`, and what was there goes
    MOST_BYTES = 64_000_000

    def __init__(self, store: Store, region: RegionId | None = None) -> None:
        """`region`: of the process of one region, which has files of its own."""
        self._store, folder = store, "" if region is None else f"{names.REGIONS}/{region}/"
        self._file, self._old = f"{folder}dead_letters.jsonl", f"{folder}dead_letters.old.jsonl"
        self._counts = f"{folder}{names.DEAD_LETTERS}"

    def add(self, stream: str, dead: list[dict[str, Any]]) -> None:
        self._store.append_lines(self._file, [json.dumps({"stream": stream, **entry}, default=str) for entry in dead])
        counts = self.counts()
        counts[stream] = counts.get(stream, 0) + len(dead)
        self._store.put_document(self._counts, counts)
        if self._store.size(self._file) > self.MOST_BYTES:
            self._store.disk.rename(self._file, self._old)

    def counts(self) -> dict[str, int]:
        """Rows that did not fit, by stream, since ever."""
        return self._store.get_document(self._counts) or {}

    def read(self) -> list[dict[str, Any]]:
        """The newest ones, oldest first."""
        lines = (line for file in (self._old, self._file) for line in self._store.read_lines(file))
        return [json.loads(line) for line in lines if line.endswith("}")]  # not one that a crash has cut off


class UnknownColumns:
    """Columns that rows had and their stream has not: each is logged once, and kept for the status."""

    #: of a stream; a sender that makes up names fills nothing
    MOST = 20

    def __init__(self, store: Store, region: RegionId | None = None) -> None:
        """`region`: of the process of one region, which only logs them: its status is its own."""
        self._store, self._kept = store, region is None
        self._seen: dict[str, dict[str, str]] = {}

    def add(self, stream: str, said: Mapping[str, str]) -> None:
        seen = self._seen.setdefault(stream, {})
        fresh = {name: text for name, text in said.items() if name not in seen}
        for name, text in list(fresh.items())[: self.MOST - len(seen)]:
            seen[name] = text
            log.warning("%s", text)
            if self._kept:
                kept = self._store.get_document(names.UNKNOWN_COLUMNS) or {}
                kept[stream] = {**kept.get(stream, {}), name: text}
                self._store.put_document(names.UNKNOWN_COLUMNS, kept)


def newest(table: pa.Table, time: str) -> int | None:
    """The greatest event time, in microseconds."""
    if table.num_rows == 0:
        return None
    value = pc.max(micros(table.column(time))).as_py()
    return None if value is None else int(value)


def came_late(table: pa.Table, time: str, device: str | None, promised: Mapping[str, int]) -> dict[str, int]:
    """Of devices that have rows here from before what they had promised (microseconds): the promise."""
    at = micros(table.column(time))
    if not promised or pc.min(at).as_py() >= max(promised.values()):
        return {}
    if device is None:
        return dict(promised)
    grouped = pa.table({"d": table.column(device).cast(pa.string()), "t": at}).group_by("d")
    least = {row["d"]: row["t_min"] for row in grouped.aggregate([("t", "min")]).to_pylist()}
    return {name: bound for name, bound in promised.items() if least.get(name, bound) < bound}


def newest_by_device(table: pa.Table, time: str, device: str) -> list[tuple[DeviceId, int, int]]:
    """(device, its greatest event time, its number of rows)"""
    if table.num_rows <= FEW and not (table.column(time).null_count or table.column(device).null_count):
        return _newest_of_few(table, time, device)
    at = micros(table.column(time))
    names, said = table.column(device), None
    if pa.types.is_dictionary(names.type):
        names = names.unify_dictionaries()
        said = names.chunk(0).dictionary if names.num_chunks else pa.array([], pa.string())
        names = pa.chunked_array([chunk.indices for chunk in names.chunks], pa.int32())
    grouped = pa.table({"d": names if said is not None else names.cast(pa.string()), "t": at}).group_by("d")
    found = grouped.aggregate([("t", "max"), ("t", "count")]).to_pylist()
    called = None if said is None else said.to_pylist()
    return [(DeviceId(row["d"] if called is None else called[row["d"]]), row["t_max"], row["t_count"]) for row in found]


def _newest_of_few(table: pa.Table, time: str, device: str) -> list[tuple[DeviceId, int, int]]:
    """The same row by row: to set up a grouping takes longer."""
    found: dict[str, tuple[int, int]] = {}
    names = table.column(device).cast(pa.string()).to_pylist()
    for name, at in zip(names, micros(table.column(time)).to_pylist(), strict=True):
        newest_us, count = found.get(name, (at, 0))
        found[name] = (max(newest_us, at), count + 1)
    return [(DeviceId(name), newest_us, count) for name, (newest_us, count) in found.items()]
