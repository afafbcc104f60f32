"""Reference tables: rows that are looked up, each with versions. To the engine a table is a stream of versions."""

from __future__ import annotations

from godwit.ids import StreamId
from godwit.model.plan import GONE, SEQUENCE, Column, Stream

#: the column that says from when on (event time) a version holds
SINCE = "since"


def reference_table(name: StreamId, columns: tuple[Column, ...], key: tuple[str, ...], disorder_us: int = 0) -> Stream:
    """The stream of a table's versions: its own columns, since when the version holds, which of two is newer, and
    whether the row is gone."""
    more = (Column(SINCE, "timestamp"), Column(SEQUENCE, "bigint"), Column(GONE, "boolean"))
    return Stream(name, (*columns, *more), SINCE, disorder_us=disorder_us, key=key)
