"""Rows as requests carry them: tables as Arrow streams, everything else as JSON."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any

ARROW = "application/vnd.apache.arrow.stream"


def body_of(rows: Any) -> dict[str, Any]:
    """What httpx takes: rows are dicts, an Arrow table, or a pandas frame."""
    if _is_table(rows):
        return {"content": _arrow(rows), "headers": {"content-type": ARROW}}
    return {"json": plain_json(rows)}


def _is_table(rows: Any) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__") or _is_frame(rows)


def _is_frame(rows: Any) -> bool:
    return type(rows).__module__.startswith("pandas") and hasattr(rows, "columns")


def _arrow(rows: Any) -> bytes:
    import pyarrow as pa  # (who sends none need not wait for it)

    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    table = (
        rows
        if isinstance(rows, pa.Table)
        else pa.Table.from_pandas(rows, preserve_index=False)
        if _is_frame(rows)
        else pa.table(rows)
    )
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    made: bytes = out.getvalue().to_pybytes()
    return made


def plain_json(value: Any) -> Any:
    """For JSON: times as text; a naive one is UTC, as everywhere."""
    match value:
        case dt.datetime():
            return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
        case Mapping():
            return {str(key): plain_json(one) for key, one in value.items()}
        case bytes():
            return base64.b64encode(value).decode()
        case None | bool() | int() | float() | str():
            return value
        case _ if hasattr(value, "__iter__"):
            return [plain_json(one) for one in value]
    return str(value)


def key_json(key: Any) -> Any:
    return list(key) if isinstance(key, tuple) else key


def keys_json(keys: Any) -> list[Any]:
    """A pattern, keys one by one, an Arrow column, or a table of a key's columns."""
    if isinstance(keys, str):
        return [keys]
    if hasattr(keys, "to_pylist") and hasattr(keys, "column_names"):
        return [list(row.values()) for row in keys.to_pylist()]
    return [key_json(key) for key in (keys.to_pylist() if hasattr(keys, "to_pylist") else keys)]
