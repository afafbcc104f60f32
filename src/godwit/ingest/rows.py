"""Rows as users have them, in one of two forms; without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from godwit.errors import SourceError

#: rows as users have them: a list, tuple or generator of dicts, one dict, a pyarrow table or batch, a pandas frame
Rows: TypeAlias = Any


def as_rows(stream: str, rows: Rows) -> pa.Table | list[Any]:
    """Rows in one of two forms: a table, or a list of dicts."""
    if isinstance(rows, pa.Table | list):
        return rows
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if type(rows).__module__.startswith("pandas") and hasattr(rows, "columns"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        return list(rows)
    msg = (
        f"{type(rows).__name__} is not rows of stream '{stream}'; push a list of dicts such as [{{'ts': ..}}], one "
        "dict, a pyarrow table or record batch, or a pandas frame"
    )
    raise SourceError(msg)
