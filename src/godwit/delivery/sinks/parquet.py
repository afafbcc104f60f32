"""Results as a folder of Parquet files, one a commit. Exactly-once: a repeat writes the same file again."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq

from godwit.delivery.sinks.base import Batch, Sink


class ParquetSink(Sink):
    """`spark.read.parquet(path)` shows all results; half-written files have names that readers pass over."""

    exactly_once: ClassVar[bool] = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.name = f"parquet:{self._path}"

    def write(self, batch: Batch) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        target = self._path / f"{batch.region}-{batch.number:010d}.parquet"
        draft = target.with_name(f".{target.name}.tmp")
        writer: pq.ParquetWriter | None = None
        for table in batch.tables():
            if writer is None:
                writer = pq.ParquetWriter(draft, table.schema, compression="snappy")
            writer.write_table(table)
        if writer is not None:
            writer.close()
            draft.rename(target)
