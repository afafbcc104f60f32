"""Segments: rows in Parquet files that never change, named by references into a store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from godwit.storage.base import SegmentStore


@dataclass(frozen=True)
class Segment:
    """Rows in Parquet files that never change."""

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
    #: where the files are; no part of the record
    store: SegmentStore | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        record = dict(self.__dict__)  # not `asdict`: every commit names all live segments, and nobody changes a record
        del record["store"]
        return record

    @staticmethod
    def from_json(record: Mapping[str, Any], store: SegmentStore | None) -> Segment:
        return Segment(**{**record, "files": tuple(record["files"]), "sums": tuple(record["sums"]), "store": store})

    @property
    def at(self) -> SegmentStore:
        assert self.store is not None, f"a segment without its store: {self.files}"
        return self.store

    @property
    def paths(self) -> list[str]:
        """Where Spark, or another reader of files, finds them; whether they are what was written is looked up first."""
        for file, checksum in zip(self.files, self.sums, strict=False):
            self.at.verify(file, checksum)
        return [self.at.path(file) for file in self.files]

    def tables(self, columns: list[str] | None = None, *, keep: bool = True) -> list[pa.Table]:
        """What lies in its files (at least these columns). Not `keep`: they are read once and not again."""
        sums = self.sums or (None,) * len(self.files)
        return [self.at.table(file, known, columns, keep=keep) for file, known in zip(self.files, sums, strict=True)]
