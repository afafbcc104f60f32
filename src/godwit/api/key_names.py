"""What users name keys by, as texts of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.model.keys import NULL_KEY

#: listed ones, a pattern, or many as a column; of keys with several columns, as a table
Keys = Any  # str | Sequence[Any] | pa.Array | pa.ChunkedArray | pa.Table; pyarrow has no types
#: in a command, between the columns of a key
COLUMN = "/"


def as_keys(keys: Keys) -> tuple[str, ...]:
    """As a command has them: one text per key. A table has the columns of the key, in its order."""
    if isinstance(keys, str):
        return (keys,)
    if isinstance(keys, pa.Table):
        texts = [pc.fill_null(pc.cast(column, pa.string()), NULL_KEY) for column in keys.columns]
        keys = pc.binary_join_element_wise(*texts, COLUMN) if len(texts) > 1 else texts[0]
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return tuple(pc.fill_null(pc.cast(keys, pa.string()), NULL_KEY).to_pylist())
    return tuple(COLUMN.join(map(str, key)) if isinstance(key, tuple | list) else str(key) for key in keys)


def in_words(keys: Sequence[str]) -> str:
    """The first few."""
    return ", ".join(keys[:5]) + (f" and {len(keys) - 5:,} more" if len(keys) > 5 else "")
