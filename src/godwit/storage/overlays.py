"""Overlays: delete filters, generation overrides and late projections, applied on read without rewriting files.

A list of edits beside the segment is applied in order; the next compaction writes their effect into the files.

    ["without", query, epoch]    the query's rows of generations before the epoch are no longer part of it
    ["generation", epoch]        all its rows are of this generation: they came from another region at this epoch
    ["select", column, ...]      its rows are made by this SELECT list from what lies in the files
    ["query", name]              all its rows are of this query: the version whose state it was has ended
    ["meeting", number]          (never kept) its rows take part in this meeting of a join

Here they are applied to a few rows in Arrow, without Spark; `state.py` makes them part of Spark's plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.ids import QueryId
from godwit.model.plan import GENERATION, MEETING, QUERY
from godwit.storage.log import Segment

#: a SELECT list that gives all rows to one query
_CONSTANT = re.compile(rf"'([^'\\\\]*)' AS `?{QUERY}`?")
#: the tag under which a segment's edits are kept
EDITS = "edits"


def edited(segment: Segment, *edit: Any) -> Segment:
    """The segment with one more edit."""
    return replace(segment, tags={**segment.tags, EDITS: [*segment.tags.get(EDITS, []), list(edit)]})


def without(segment: Segment, query: str, older_than: int) -> Segment:
    """A query that leaves again and again leaves one edit behind, not one for each time."""
    edits = segment.tags.get(EDITS, [])
    last = edits[-1] if edits else None
    if last is not None and last[:2] == ["without", query]:
        segment = replace(segment, tags={**segment.tags, EDITS: edits[:-1]})
    return edited(segment, "without", query, older_than)


def simple(segment: Segment) -> bool:
    """Whether its edits can be applied without Spark."""
    return all(what != "select" for what, *_ in segment.tags.get(EDITS, []))


def revised(table: pa.Table, segment: Segment) -> pa.Table:
    """The rows of one of a simple segment's files, as its edits say."""
    for what, *values in segment.tags.get(EDITS, []):
        if what == "without":
            query, older_than = values
            others = pc.not_equal(table[QUERY], query)
            table = table.filter(pc.or_(others, pc.greater_equal(table[GENERATION], older_than)))
        elif what == "meeting":
            table = table.append_column(MEETING, pa.repeat(pa.scalar(values[0], pa.int32()), table.num_rows))
        elif what == "query":
            place = table.column_names.index(QUERY)
            name = pa.repeat(pa.scalar(values[0], pa.string()), table.num_rows)
            table = table.set_column(place, pa.field(QUERY, pa.string()), name)
        else:
            place = table.column_names.index(GENERATION)
            newest = pa.repeat(pa.scalar(values[0], pa.int64()), table.num_rows)
            table = table.set_column(place, pa.field(GENERATION, pa.int64()), newest)
    return table


def with_generations(table: pa.Table, since: Mapping[QueryId, int]) -> pa.Table:
    """Add each row's generation: since when its query's rows are ours; 0 where the query is not named."""
    if not since:  # (as it nearly always is)
        return table.append_column(GENERATION, pa.repeat(pa.scalar(0, pa.int64()), table.num_rows))
    return table.append_column(GENERATION, pc.fill_null(by_query(table, since), 0))


def by_query(table: pa.Table, values: Mapping[QueryId, int]) -> pa.Array:
    """The value of each row's query; null where it has none."""
    place = pc.index_in(table[QUERY], value_set=pa.array(list(values), pa.string()))
    return pc.take(pa.array(list(values.values()), pa.int64()), place)


def rows_by_query(segment: Segment) -> dict[str, int]:
    """How many rows of each query it holds. What is still to be made by a SELECT counts as it lies in the files."""
    found: dict[str, int] = {}
    if (only := _only(segment)) is not None:
        return {only: segment.rows}
    for table in segment.tables([QUERY, GENERATION]):
        rows = revised(table, segment) if simple(segment) else table
        for count in pc.value_counts(rows[QUERY].combine_chunks()).to_pylist():
            found[count["values"]] = found.get(count["values"], 0) + count["counts"]
    return found


def _only(segment: Segment) -> str | None:
    """The query of all rows of a segment whose files do not name it."""
    found = None
    for what, *values in segment.tags.get(EDITS, []):
        if what == "query":
            found = values[0]
        elif what == "select" and found is None:
            found = next((known[1] for text in values if (known := _CONSTANT.fullmatch(text)) is not None), None)
    return found
