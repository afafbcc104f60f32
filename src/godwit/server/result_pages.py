"""Results by pages. A cursor counts, for each region, the rows of the query that were read: merging old commits into
few files keeps their order, so a cursor stays good."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.api.core import FleetCore
from godwit.delivery.json_rows import json_rows
from godwit.errors import ConfigError
from godwit.ids import QueryId
from godwit.model.plan import QUERY, Query
from godwit.storage.by_query import ROWS, may_hold
from godwit.storage.log import Segment


def page(fleet: FleetCore, name: QueryId, cursor: str | None, limit: int) -> dict[str, Any]:
    """Up to `limit` rows past a cursor, and the cursor behind them; fewer: there are no more now."""
    query, seen = fleet.execution(name), _decoded(cursor)
    found: list[pa.Table] = []
    for region, segments in fleet.pool.results_by_region(query.shape.key).items():
        before, taken = seen.get(region, 0), 0
        for segment in segments:
            if limit <= 0:
                break
            size = _rows(segment, query)
            if size <= before:
                before -= size
                continue
            for table in rows_of([segment], query):
                part = table.slice(before, limit)
                before = max(0, before - table.num_rows)
                taken, limit = taken + part.num_rows, limit - part.num_rows
                found.append(part)
        seen[region] = seen.get(region, 0) + taken
    return {
        "query": name,
        "rows": [row for table in found for row in json_rows(table)],
        "cursor": _encoded(seen),
        "more": limit <= 0,
    }


def rows_of(segments: Iterable[Segment], query: Query) -> list[pa.Table]:
    """A query's own rows, with its output columns; of results that replace each other also which is newer."""
    columns = list(query.shape.plan.sink.written)
    found = []
    for segment in segments:
        for table in segment.tables() if may_hold(segment, query.id) else ():
            mine = table.filter(pc.equal(table.column(QUERY), query.id)).select(columns)
            found += [mine] if mine.num_rows else []
    return found


def _rows(segment: Segment, query: Query) -> int:
    known = segment.tags.get(ROWS)
    if known is not None:
        return int(known.get(query.id, 0))
    return sum(table.num_rows for table in rows_of([segment], query))


def _encoded(seen: Mapping[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(seen, sort_keys=True).encode()).decode()


def _decoded(cursor: str | None) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        told = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return {str(region): max(0, int(rows)) for region, rows in told.items()}
    except (ValueError, TypeError, AttributeError) as error:
        msg = "the cursor is not one of ours; use the one of the page before, or none to begin anew"
        raise ConfigError(msg) from error
