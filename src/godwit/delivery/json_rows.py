"""Rows as JSON has them: times as ISO 8601 text in UTC, bytes as hexadecimal digits, decimals as text."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """One dict per row, of what `json.dumps` takes."""
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def plain(value: Any) -> Any:
    match value:
        case dt.datetime():
            return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple():
            return [plain(v) for v in value]
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case bytes():
            return value.hex()
    return str(value)
