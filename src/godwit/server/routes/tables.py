"""Reference tables: declare them, read them, and change their rows, from a time on."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from godwit.model.tables import SINCE
from godwit.server.access import Caller, Role
from godwit.server.arrivals import check_feeder, parsed
from godwit.server.bodies import NewTable, TableKeys
from godwit.server.problems import not_found
from godwit.server.service import described, needs, service_of

router = APIRouter(prefix="/v1/tables", tags=["tables"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Feeder = Annotated[Caller, Depends(needs(Role.FEED))]
Admin = Annotated[Caller, Depends(needs(Role.ADMIN))]
Since = Annotated[dt.datetime | None, Query(description="Event time from which on it holds; without one, from now on.")]
ROWS: dict[str, Any] = {"requestBody": {"content": {"application/json": {}}}}


@router.get("")
def tables(request: Request, caller: Reader) -> list[dict[str, Any]]:
    """All reference tables and their columns."""
    streams = service_of(request).fleet.deployment.streams
    return [described(table) for _, table in sorted(streams.items()) if table.key]


@router.post("", status_code=201)
def declare(request: Request, body: NewTable, caller: Admin) -> dict[str, Any]:
    """Declare a reference table: rows that queries look up by a key."""
    fleet = service_of(request).fleet
    return described(fleet.table(body.name, body.columns, key=body.key, disorder=body.disorder, site=body.site))


@router.get("/{table}")
def table(request: Request, table: str, caller: Reader) -> dict[str, Any]:
    """One reference table: its columns and its key."""
    return described(service_of(request).table(table))


@router.get("/{table}/rows")
def rows(
    request: Request,
    table: str,
    caller: Reader,
    key: Annotated[
        list[str] | None, Query(max_length=100, description="One row, by its key: a value per column.")
    ] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> dict[str, Any]:
    """The rows there are, in their newest versions; `since` says from when on each holds."""
    service = service_of(request)
    declared = service.table(table)
    found = service.fleet.table_rows(table)
    if key is not None:
        found = [row for row in found if [str(row[name]) for name in declared.key] == key]
        if not found:
            raise not_found(", ".join(key), f"row of '{table}'")
    rows = [{("since" if name == SINCE else name): value for name, value in row.items()} for row in found]
    return {"table": table, "rows": rows[offset : offset + limit], "more": len(rows) > offset + limit}


@router.post("/{table}/rows", openapi_extra=ROWS)
async def upsert(request: Request, table: str, caller: Feeder, since: Since = None) -> dict[str, Any]:
    """Put rows in, or replace those of the same key (JSON, JSON lines or an Arrow stream)."""
    return await _changed(request, table, caller, since, "upsert")


@router.put("/{table}/rows", openapi_extra=ROWS)
async def replace(request: Request, table: str, caller: Feeder, since: Since = None) -> dict[str, Any]:
    """Make these all the rows there are; what differs is a change."""
    return await _changed(request, table, caller, since, "replace")


@router.post("/{table}/delete")
def delete(request: Request, table: str, body: TableKeys, caller: Feeder, since: Since = None) -> dict[str, Any]:
    """Take rows out, by their keys."""
    service = service_of(request)
    declared = service.table(table)
    check_feeder(service, request, caller, table, None)
    keys = [tuple(key) if isinstance(key, list) else (key,) for key in body.keys]
    wrong = next((key for key in keys if len(key) != len(declared.key)), None)
    if wrong is not None:
        raise not_found(str(wrong), f"key of '{table}', which is ({', '.join(declared.key)})")
    return {"table": table, "changed": service.fleet.change_table(table, keys, since, "delete")}


async def _changed(request: Request, table: str, caller: Caller, since: dt.datetime | None, how: str) -> dict[str, Any]:
    service = service_of(request)
    declared = service.table(table)
    check_feeder(service, request, caller, table, None)
    rows = await parsed(await request.body(), request.headers.get("content-type", "application/json"), declared)
    return {"table": table, "changed": await run_in_threadpool(service.fleet.change_table, table, rows, since, how)}
