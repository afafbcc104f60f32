"""Results by pages. A cursor counts, for each region and shape, the rows of the query that were read: merging old
commits into few files keeps their order, so a cursor stays good."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from godwit.delivery.json_rows import json_rows
from godwit.errors import ConfigError
from godwit.ids import QueryId
from godwit.model.plan import QUERY, Query
from godwit.server.backend import Backend
from godwit.storage.by_query import ROWS, may_hold
from godwit.storage.log import Segment


def page(fleet: Backend, name: QueryId, cursor: str | None, limit: int) -> dict[str, Any]:
    """Up to `limit` rows past a cursor, and the cursor behind them; fewer: there are no more now."""
    # (with what it answered before it was altered or got another plan, as `fleet.changes` has it)
    versions, seen = fleet.executions(name), _decoded(cursor)
    query, executions = versions[-1], {version.id for version in versions}
    found: list[pa.Table] = []
    for shape in dict.fromkeys(version.shape.key for version in versions):
        for region, segments in fleet.segments(shape).items():
            log = f"{region}/{shape}"
            before, taken = seen.get(log, 0), 0
            for segment in segments:
                if limit <= 0:
                    break
                size = _rows(segment, query, executions)
                if size <= before:
                    before -= size
                    continue
                for table in rows_of([segment], query, executions):
                    part = table.slice(before, limit)
                    before = max(0, before - table.num_rows)
                    taken, limit = taken + part.num_rows, limit - part.num_rows
                    found.append(part)
            seen[log] = seen.get(log, 0) + taken
    return {
        "query": name,
        "rows": [row for table in found for row in json_rows(table)],
        "cursor": _encoded(seen),
        "more": limit <= 0,
    }


def newest(fleet: Backend, name: QueryId, limit: int) -> dict[str, Any]:
    """The newest rows of each region: at most that many of each."""
    versions = fleet.executions(name)
    query, executions, seen = versions[-1], {version.id for version in versions}, {}
    for shape in dict.fromkeys(version.shape.key for version in versions):
        for region, segments in fleet.segments(shape).items():
            total = sum(_rows(segment, query, executions) for segment in segments)
            seen[f"{region}/{shape}"] = max(0, total - limit)
    return page(fleet, name, _encoded(seen), limit * max(1, len(seen)))


def rows_of(segments: Iterable[Segment], query: Query, executions: Collection[str] = ()) -> list[pa.Table]:
    """A query's own rows (of these executions of it), with its output columns; of results that replace each other also
    which is newer."""
    columns, mine = list(query.shape.plan.sink.written), executions or {query.id}
    found = []
    for segment in segments:
        for table in segment.tables() if any(may_hold(segment, one) for one in mine) else ():
            rows = table.filter(pc.is_in(table.column(QUERY), pa.array(sorted(mine), pa.string()))).select(columns)
            found += [rows] if rows.num_rows else []
    return found


def _rows(segment: Segment, query: Query, executions: Collection[str]) -> int:
    known = segment.tags.get(ROWS)
    if known is not None:
        return sum(int(known.get(one, 0)) for one in executions)
    return sum(table.num_rows for table in rows_of([segment], query, executions))


def _encoded(seen: Mapping[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(seen, sort_keys=True).encode()).decode()


def _decoded(cursor: str | None) -> dict[str, int]:
    if not cursor:
        return {}
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return {str(region): max(0, int(rows)) for region, rows in position.items()}
    except (ValueError, TypeError, AttributeError) as error:
        msg = "the cursor is not one of ours; use the one of the page before, or none to begin again"
        raise ConfigError(msg) from error
