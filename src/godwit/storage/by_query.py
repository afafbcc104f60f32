"""Result files that hold rows of many queries, laid out so that a reader of one query reads its own rows only.

The rows of a query are one row group, and the segment says which queries it has rows of, so a sink passes over segments
and row groups that are not for it: N sinks of N queries read every row once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from godwit.model.plan import QUERY
from godwit.storage.log import Segment

#: the tag under which a segment keeps how many rows it has of each query
ROWS = "rows_by_query"
#: names that Python counts sooner than Arrow does (1 us against 30 for 16 of them)
FEW = 500


def by_query(table: pa.Table) -> tuple[pa.Table, dict[str, int]]:
    """The rows query by query, and how many there are of each: its row groups."""
    counts = _counts(table.column(QUERY))
    if len(counts) > 1:
        table = table.take(pc.sort_indices(table, [(QUERY, "ascending")]))  # (stable: a query's rows keep their order)
    return table, counts


def _counts(queries: pa.ChunkedArray) -> dict[str, int]:
    """How often there is each, in order."""
    if len(queries) <= FEW:
        return dict(sorted(Counter(queries.to_pylist()).items()))
    found = pc.value_counts(queries).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(found, key=lambda entry: entry["values"])}


def rows_by_query(segment: Segment) -> Mapping[str, int] | None:
    """How many rows a segment has of each query; None: it does not say (many rows, written by Spark's tasks)."""
    found: Mapping[str, int] | None = segment.tags.get(ROWS)
    return found


def may_hold(segment: Segment, query: str) -> bool:
    """Whether a reader of the query must look into the segment."""
    rows = rows_by_query(segment)
    return rows is None or query in rows
