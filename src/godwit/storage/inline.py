"""Rows that travel in a record, and texts that many records share: what a record may hold beside JSON values.

A record is JSON in which a marker stands for each of them. Rows are Arrow IPC bytes beside the JSON (no base64);
a shared text (Spark's schema of a segment) and the Arrow schema of rows are written once per chunk of a log, as
definitions that the records after them refer to by number.

Tables stay where they are made: whoever reads the record in this process gets the very same object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

#: rows of at most this size (bytes) travel in the record; larger ones get a file
INLINE_BYTES = 64_000
#: a key that no name has: an object with it alone is a marker
_MARK = "\0"
_MARK_TEXT = json.dumps(_MARK).encode()

#: what a chunk defines once: a text, or an Arrow schema
Definition = str | bytes


@dataclass(frozen=True)
class SharedText:
    """A text that is the same in many records."""

    text: str


class InlineRows:
    """A table of few rows; encoded once, decoded once."""

    __slots__ = ("_data", "_schema", "_table")

    def __init__(self, table: pa.Table | None, data: bytes | None = None, schema: bytes | None = None) -> None:
        self._table, self._data, self._schema = table, data, schema

    @staticmethod
    def of(table: pa.Table) -> InlineRows | None:
        """None: they are too many, or of a type that needs more than one Arrow message."""
        held = table.get_total_buffer_size()  # (what `nbytes` counts is no more, and takes long to count)
        if held > INLINE_BYTES and table.nbytes > INLINE_BYTES:
            return None
        table = table.replace_schema_metadata(None)
        schema: bytes = table.schema.serialize().to_pybytes()
        if _with_dictionary(schema):
            return None
        made = InlineRows(table, None, schema)
        if held > 2 * INLINE_BYTES:  # (a part of something large, which must not stay for it)
            made = InlineRows(None, made.data, made.schema)
        return made if len(made.data) <= INLINE_BYTES else None

    @property
    def data(self) -> bytes:
        """One Arrow message."""
        if self._data is None:
            assert self._table is not None
            self._data = self._table.combine_chunks().to_batches()[0].serialize().to_pybytes()
        return self._data

    @property
    def schema(self) -> bytes:
        if self._schema is None:
            assert self._table is not None
            self._schema = self._table.schema.serialize().to_pybytes()
        return self._schema

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            assert self._data is not None
            assert self._schema is not None
            schema = _schema_of(self._schema)
            self._table = pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(self._data), schema)])
        return self._table

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InlineRows):
            return NotImplemented
        return self is other or (self.data == other.data and self.schema == other.schema)

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"InlineRows({len(self.data)} bytes)"


def _dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(_dictionary(kind.field(n).type) for n in range(kind.num_fields))


@lru_cache(maxsize=512)
def _with_dictionary(schema: bytes) -> bool:
    return any(_dictionary(field.type) for field in _schema_of(schema))


@lru_cache(maxsize=512)
def _schema_of(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))


@dataclass(frozen=True)
class Encoded:
    """A record as bytes. `text`: JSON with markers; `fresh`: definitions that the chunk did not have before."""

    text: bytes
    fresh: tuple[Definition, ...] = ()
    rows: tuple[InlineRows, ...] = ()


def encode(record: Any, known: Mapping[Definition, int]) -> Encoded:
    """`known`: what the chunk has defined so far, and under which numbers."""
    fresh: dict[Definition, int] = {}
    rows: list[InlineRows] = []

    def place(value: Definition) -> int:
        found = known.get(value)
        return fresh.setdefault(value, len(known) + len(fresh)) if found is None else found

    def mark(value: Any) -> Any:
        if isinstance(value, SharedText):
            return {_MARK: place(value.text)}
        if isinstance(value, InlineRows):
            rows.append(value)
            return {_MARK: [len(rows) - 1, place(value.schema)]}
        msg = f"a record cannot hold a {type(value).__name__}: {value!r}"
        raise TypeError(msg)

    text = json.dumps(record, separators=(",", ":"), default=mark).encode()
    return Encoded(text, tuple(fresh), tuple(rows))


def decode(text: bytes, defined: Sequence[Definition], rows: Callable[[int, int], InlineRows]) -> Any:
    """The inverse. `rows`: those of a number, with the definition of their schema."""
    if _MARK_TEXT not in text:
        return json.loads(text)

    def resolve(value: dict[str, Any]) -> Any:
        if len(value) != 1 or _MARK not in value:
            return value
        told = value[_MARK]
        return rows(*told) if isinstance(told, list) else defined[told]

    return json.loads(text, object_hook=resolve)


def plain(value: Any) -> Any:
    """A copy in lists and dictionaries of its own, as it would be read back: later changes do not reach it."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
