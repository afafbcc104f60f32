"""Segments: rows that never change: in Parquet files, named by references into a store, or in the record itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from godwit.storage.base import SegmentStore
from godwit.storage.inline import InlineRows, SharedText


@dataclass(frozen=True)
class Segment:
    """Rows in Parquet files that never change; few rows have none, and travel in the record (`inline`)."""

    #: references into the store
    files: tuple[str, ...]
    rows: int
    bytes: int
    #: Spark's schema as JSON, so that reading needs no look into the files
    schema: str
    #: least and greatest value of the column that readers prune by (microseconds), if there is one
    low: int | None = None
    high: int | None = None
    #: whatever else the writer must know again
    tags: dict[str, Any] = field(default_factory=dict)
    #: checksum of each file (`store.checksum`)
    sums: tuple[int, ...] = ()
    inline: InlineRows | None = None
    #: where the files are; no part of the record
    store: SegmentStore | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        record = dict(self.__dict__)  # not `asdict`: every commit names all live segments, and nobody changes a record
        del record["store"]
        record["schema"] = SharedText(self.schema)
        return record

    @staticmethod
    def from_json(record: Mapping[str, Any], store: SegmentStore | None) -> Segment:
        schema = record["schema"]
        told = {
            "files": tuple(record["files"]),
            "sums": tuple(record["sums"]),
            "schema": schema.text if isinstance(schema, SharedText) else schema,
        }
        return Segment(**{**record, **told, "store": store})

    @property
    def at(self) -> SegmentStore:
        assert self.store is not None, f"a segment without its store: {self.files}"
        return self.store

    @property
    def key(self) -> tuple[object, ...]:
        """The same for segments of the very same rows."""
        return (*self.files, id(self.inline)) if self.inline is not None else self.files

    @property
    def paths(self) -> list[str]:
        """Where Spark, or another reader of files, finds them; whether they are what was written is looked up first.
        None of rows in the record: they are handed over as a table."""
        for file, checksum in zip(self.files, self.sums, strict=False):
            self.at.verify(file, checksum)
        return [self.at.path(file) for file in self.files]

    def tables(self, columns: list[str] | None = None, *, keep: bool = True) -> list[pa.Table]:
        """Its rows (at least these columns). Not `keep`: files are read once and not again."""
        if self.inline is not None:
            return [self.inline.table]
        sums = self.sums or (None,) * len(self.files)
        return [self.at.table(file, known, columns, keep=keep) for file, known in zip(self.files, sums, strict=True)]
