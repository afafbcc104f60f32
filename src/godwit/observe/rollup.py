"""Totals over commit records: what a (region, shape) has done so far. They outlive the records they were made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

import pyarrow.compute as pc

from godwit.model.plan import QUERY
from godwit.storage.base import SegmentStore
from godwit.storage.by_query import rows_by_query
from godwit.storage.log import Record, Segment


@dataclass
class Totals:
    """Sums of the `metrics` part of commits."""

    batches: int = 0
    rows_in: int = 0
    bytes_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    #: state that went to other regions
    handed_over: int = 0
    #: "stream/device" -> rows, and bytes (its rows' share of what was read)
    rows_by_source: dict[str, int] = field(default_factory=dict)
    bytes_by_source: dict[str, float] = field(default_factory=dict)
    #: "region/operator" that rows were sent to -> bytes
    sent: dict[str, int] = field(default_factory=dict)
    #: "operator/input" of stateful operators -> rows
    taken: dict[str, int] = field(default_factory=dict)
    #: micro-batches in which stateful operators took rows in, and how long these took (milliseconds)
    stateful_batches: int = 0
    stateful_ms: float = 0.0
    #: query -> rows
    out: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    #: the newest event that was read (microseconds), at last and after the first micro-batch
    newest_us: int | None = None
    first_us: int | None = None

    def add(self, record: Record, store: SegmentStore) -> None:
        """Count a commit record in."""
        metrics = record["metrics"]
        self.batches += 1
        for name in ("rows_in", "bytes_in", "rows_out", "rows_late", "handed_over"):
            setattr(self, name, getattr(self, name) + metrics[name])
        per_row = metrics["bytes_in"] / metrics["rows_in"] if metrics["rows_in"] else 0.0
        for source, rows in metrics["by_source"].items():
            self.rows_by_source[source] = self.rows_by_source.get(source, 0) + rows
            self.bytes_by_source[source] = self.bytes_by_source.get(source, 0.0) + rows * per_row
        if metrics.get("taken"):
            self.stateful_batches += 1
            self.stateful_ms += metrics["took_ms"]
        for where, rows in metrics.get("taken", {}).items():
            self.taken[where] = self.taken.get(where, 0) + rows
        for parcel in record["channels"]:
            to = f"{parcel['to']}/{parcel['operator']}"
            self.sent[to] = self.sent.get(to, 0) + parcel["segment"]["bytes"]
        if record["newest_us"] is not None:
            self.first_us = record["newest_us"] if self.first_us is None else self.first_us
            self.newest_us = max(record["newest_us"], self.newest_us or record["newest_us"])
        count(self.out, results_of(record, store))
        count(self.late, late_of(record, store))

    def forget(self, sources: Callable[[str], bool], queries: Callable[[str], bool]) -> None:
        """Keep the parts only of sources and queries that are still known; the sums stay."""
        for table, known in (
            (self.rows_by_source, sources),
            (self.bytes_by_source, sources),
            (self.out, queries),
            (self.late, queries),
        ):
            for name in [name for name in table if not known(name)]:
                del table[name]

    def to_json(self) -> Record:
        return asdict(self)

    @staticmethod
    def from_json(record: Record) -> Totals:
        return Totals(**record)


def results_of(record: Record, store: SegmentStore) -> list[Segment]:
    return [Segment.from_json(s, store) for s in record["results"]]


def late_of(record: Record, store: SegmentStore) -> list[Segment]:
    return [Segment.from_json(s, store) for _, s in record["late"]]


def count(into: dict[str, int], segments: Iterable[Segment]) -> None:
    """Add up the segments' rows by query: only that one column is read."""
    for query, rows in by_query(segments).items():
        into[query] = into.get(query, 0) + rows


def by_query(segments: Iterable[Segment]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for segment in segments:
        told = rows_by_query(segment)
        for query, rows in (told or {}).items():
            found[query] = found.get(query, 0) + rows
        for table in segment.tables([QUERY]) if told is None else ():
            for entry in pc.value_counts(table.column(QUERY)).to_pylist():
                found[entry["values"]] = found.get(entry["values"], 0) + entry["counts"]
    return found
