"""Rows as they travel (JSON, JSON lines, an Arrow stream) become what `fleet.push` takes.

JSON has no times: in a stream's timestamp columns, ISO 8601 text is a time (without an offset: UTC) and everything
else stays as it is, so that the stream's own rule says what is wrong with it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from godwit.errors import SourceError
from godwit.model.plan import Stream

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = ("application/x-ndjson", "application/jsonl", "application/ndjson")


def parse(body: bytes, content_type: str, stream: Stream) -> pa.Table | list[Any]:
    """SourceError: the body is not what its content type says, with the place."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == ARROW:
        return _arrow(body)
    if kind in NDJSON:
        rows = [_json(line, f"line {n}") for n, line in enumerate(body.splitlines(), 1) if line.strip()]
    elif kind in ("application/json", ""):
        told = _json(body, "the body")
        rows = told if isinstance(told, list) else [told]
    else:
        msg = f"content type '{kind}' is not known; send application/json, {NDJSON[0]} or {ARROW}"
        raise SourceError(msg)
    times = {c.name for c in stream.columns if c.type.startswith("timestamp")}
    return [_with_times(row, times) for row in rows]


def _arrow(body: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(body).read_all()
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        msg = f"the body is not an Arrow stream ({str(error).splitlines()[0]}); write it with pyarrow.ipc.new_stream"
        raise SourceError(msg) from error


def _json(text: bytes, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{place} is not JSON ({error}); send a list of objects, or one object per line as {NDJSON[0]}"
        raise SourceError(msg) from error


def _with_times(row: Any, times: Collection[str]) -> Any:
    if not isinstance(row, dict):
        return row
    for name in times:
        if isinstance(value := row.get(name), str):
            row[name] = _time(value)
    return row


def _time(text: str) -> Any:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
