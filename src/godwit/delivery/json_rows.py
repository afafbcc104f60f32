"""Rows as JSON has them: times as ISO 8601 text in UTC, bytes as hexadecimal digits, decimals as text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def html_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a notebook shows them."""
    if not rows:
        return "<p>no results yet</p>"
    head = "".join(f"<th>{escape(str(name))}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
