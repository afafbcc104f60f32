"""Keys of few rows, looked at here: which rows are of a key set, and since when their keys are ours.

`key_sql.py` says the same as a text of Spark's plan. Key sets and epochs change with every migration, and another text
is another plan, which takes longer to make than a migration of few keys takes as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegralType, StringType

from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.ids import Epoch, QueryId
from godwit.model.keys import BUCKETS, KEY_SEPARATOR, NULL_KEY, HashRange, Key, KeySet, Listed, Rest
from godwit.model.plan import QUERY

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def plain_names(keys: Sequence[str]) -> list[str] | None:
    """The columns of a key; None: they are expressions."""
    names = [sql.strip("`") for sql in keys]
    return names if names and all(map(_PLAIN.fullmatch, names)) else None


def at_hand(frame: Frame, keys: Sequence[str]) -> LazyFrame | None:
    """Its rows, made, if they are few and have keys whose texts Python and Spark write alike."""
    names = plain_names(keys)
    if not isinstance(frame, LazyFrame) or names is None:
        return None
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    if not all(isinstance(kinds.get(name), IntegralType | StringType) for name in names):
        return None
    if frame.leaf is not None:
        return frame
    return LazyFrame.of(frame.spark, frame.toArrow().combine_chunks(), frame.schema)


def inside(rows: pa.Table, keys: KeySet, sql: Sequence[str]) -> pa.Array:
    """Whether each row's key is in a set."""
    return _inside(_texts(rows, sql), keys)


def of_query(rows: pa.Table, query: QueryId, keys: KeySet, sql: Sequence[str]) -> pa.Array:
    return pc.and_(pc.equal(rows[QUERY], query), inside(rows, keys, sql))


def since(
    rows: pa.Table, rules: Iterable[tuple[QueryId, Sequence[tuple[KeySet, Epoch]]]], sql: Sequence[str]
) -> pa.Array:
    """The generation of each row: of the first rule of its query that its key is in, else 0."""
    texts, found = _texts(rows, sql), np.zeros(rows.num_rows, np.int64)
    for query, known in rules:
        mine = pc.equal(rows[QUERY], query)
        for keys, epoch in reversed(known):
            found[np.asarray(pc.and_(mine, _inside(texts, keys)))] = int(epoch)
    return pa.array(found)


def _texts(rows: pa.Table, sql: Sequence[str]) -> pa.ChunkedArray:
    names = plain_names(sql)
    assert names is not None
    parts = [pc.fill_null(pc.cast(rows[name], pa.string()), NULL_KEY) for name in names]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, KEY_SEPARATOR)


def _inside(texts: pa.ChunkedArray, keys: KeySet) -> pa.ChunkedArray:
    match keys:
        case Listed(some):
            return _among(texts, lambda text, key: key in some, len(next(iter(some), ())))
        case HashRange(low, high, but):

            def ranged(text: str, key: Key) -> bool:
                return low <= crc32(text.encode()) % BUCKETS < high and key not in but

            return _among(texts, ranged, len(next(iter(but), ())))
        case Rest(but=named):
            everything = pc.is_valid(texts)
            return reduce(lambda left, one: pc.and_(left, pc.invert(_inside(texts, one))), named, everything)


def _among(texts: pa.ChunkedArray, chosen: Callable[[str, Key], bool], columns: int) -> pa.ChunkedArray:
    """The rows whose key is chosen. Each key of the rows is looked up: that costs what there are rows, however many
    keys a set has."""
    known: list[str] = pc.unique(texts).to_pylist()
    keys: list[Key] = [(text,) if columns <= 1 else tuple(text.split(KEY_SEPARATOR)) for text in known]
    there = [text for text, key in zip(known, keys, strict=True) if chosen(text, key)]
    return pc.is_in(texts, value_set=pa.array(there, pa.string()))
