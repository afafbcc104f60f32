"""The versions of reference tables' rows, by table: a file of changes that a query which begins later is told again.

A change is a few rows of the table's stream (`model/tables.py`), in Arrow's format, one line each. What no query can
look at any more is left out when the file is opened: versions that were replaced long before the newest.
"""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc

from godwit.ids import StreamId
from godwit.ingest.schema import Schema, micros
from godwit.model.plan import GONE, SEQUENCE
from godwit.model.tables import SINCE
from godwit.storage.store import Store

#: so long (microseconds, event time) a version stays after it was replaced, for rows that come late
REPLACED_US = 24 * 3600 * 1_000_000
#: limit of changes within one batch
ROWS_PER_CHANGE = 1 << 24


class TableBook:
    """The tables of one fleet. Callers hold the fleet's lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes: dict[StreamId, list[tuple[int, pa.Table]]] = {}

    def open(self, schema: Schema) -> None:
        """Read what was there."""
        stream = schema.stream.id
        lines = [line for line in self._store.read_lines(_file(stream)) if line.endswith("}")]
        self._changes[stream] = [(told["n"], _decoded(told["rows"], schema)) for told in map(json.loads, lines)]
        self._prune(schema)

    def last(self, stream: StreamId) -> int:
        """The number of the last change."""
        changes = self._changes[stream]
        return changes[-1][0] if changes else 0

    def add(self, stream: StreamId, rows: pa.Table) -> tuple[int, pa.Table]:
        """Write a change down; returns its number, and its rows with theirs."""
        number = self.last(stream) + 1
        places = pa.array(range(number * ROWS_PER_CHANGE, number * ROWS_PER_CHANGE + rows.num_rows), pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(SEQUENCE), SEQUENCE, places)
        self._store.append_lines(_file(stream), [_line(number, rows)])
        self._changes[stream].append((number, rows))
        return number, rows

    def after(self, stream: StreamId, number: int) -> list[tuple[int, pa.Table]]:
        """Changes that came after that one."""
        return [change for change in self._changes[stream] if change[0] > number]

    def versions(self, schema: Schema) -> pa.Table:
        """All that is known, oldest change first."""
        tables = [rows for _, rows in self._changes[schema.stream.id]]
        return pa.concat_tables(tables).combine_chunks() if tables else schema.arrow.empty_table()

    def current(self, schema: Schema) -> pa.Table:
        """The newest version of each row, without those that are gone."""
        rows = _newest(self.versions(schema), schema.stream.key)
        return rows.filter(pc.invert(rows[GONE]))

    def _prune(self, schema: Schema) -> None:
        stream, rows = schema.stream.id, self.versions(schema)
        if rows.num_rows == 0:
            return
        known = self._changes[stream]
        since = micros(rows[SINCE])
        old = pc.less(since, pc.max(since).as_py() - REPLACED_US)
        kept = pa.concat_tables([_newest(rows.filter(old), schema.stream.key), rows.filter(pc.invert(old))])
        if kept.num_rows < rows.num_rows // 2:
            self._changes[stream] = [(known[-1][0], kept.combine_chunks())]
            self._store.replace_lines(_file(stream), [_line(*self._changes[stream][0])])


def _newest(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Of each key the row that is the newest by time and number."""
    order = pc.sort_indices(rows, [(SINCE, "descending"), (SEQUENCE, "descending")])
    taken: dict[tuple[object, ...], int] = {}
    names = [rows[name].to_pylist() for name in key]
    for place in order.to_pylist():
        taken.setdefault(tuple(values[place] for values in names), place)
    return rows.take(pa.array(sorted(taken.values()), pa.int64()))


def _file(stream: StreamId) -> str:
    return f"tables/{stream}.jsonl"


def _line(number: int, rows: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return json.dumps({"n": number, "rows": base64.b64encode(sink.getvalue().to_pybytes()).decode()})


def _decoded(text: str, schema: Schema) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all().cast(schema.arrow)
