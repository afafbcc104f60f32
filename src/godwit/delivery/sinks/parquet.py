"""Results as a folder of Parquet files, one a commit. Exactly-once: a repeat writes the same file again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq

from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.delivery.sinks.outputs import must_be_there


class ParquetSink(ResultSink):
    """`spark.read.parquet(path)` shows all results; half-written files have names that readers pass over."""

    exactly_once: ClassVar[bool] = True

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._newest: str | None = None
        self.name = f"parquet:{self._path}"

    def open(self, state: dict[str, Any]) -> None:
        must_be_there(self.name, state)
        self._newest = state.get("newest")

    def write(self, batch: ResultBatch) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        # Versions of a query count their commits on their own.
        version = f"{batch.query.partition('~')[2]}-" if "~" in batch.query else ""
        target = self._path / f"{batch.region}-{version}{batch.number:010d}.parquet"
        draft = target.with_name(f".{target.name}.tmp")
        writer: pq.ParquetWriter | None = None
        for table in batch.tables():
            if writer is None:
                writer = pq.ParquetWriter(draft, table.schema, compression="snappy")
            writer.write_table(table)
        if writer is not None:
            writer.close()
            draft.rename(target)
            self._newest = target.name

    def state(self) -> dict[str, Any]:
        return {"newest": self._newest}
