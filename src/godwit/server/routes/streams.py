"""Streams: declare them, look at them, and send rows."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from godwit.ids import DeviceId, StreamId
from godwit.ingest.row_formats import parse
from godwit.server.access import Caller, Role
from godwit.server.bodies import NewStream
from godwit.server.problems import refused
from godwit.server.service import Service, described, needs, service_of

router = APIRouter(prefix="/v1/streams", tags=["streams"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Feeder = Annotated[Caller, Depends(needs(Role.FEED))]
Admin = Annotated[Caller, Depends(needs(Role.ADMIN))]


@router.get("")
def streams(request: Request, caller: Reader) -> list[dict[str, Any]]:
    fleet = service_of(request).fleet
    return [described(stream) for _, stream in sorted(fleet.deployment.streams.items())]


@router.post("", status_code=201)
def declare(request: Request, body: NewStream, caller: Admin) -> dict[str, Any]:
    told = body.model_dump()
    name, columns = told.pop("name"), told.pop("columns")
    return described(service_of(request).fleet.stream(name, columns, **told))


@router.post("/{stream}/rows", openapi_extra={"requestBody": {"content": {"application/json": {}}}})
async def push(
    request: Request,
    stream: str,
    caller: Feeder,
    device: Annotated[str | None, Query(description="The sender, if all rows are of one.")] = None,
    sequence: Annotated[int | None, Query(ge=1, description="Makes a repeat of this request harmless.")] = None,
) -> dict[str, Any]:
    """Send rows (JSON, JSON lines or an Arrow stream). When this returns, they are durable."""
    service = service_of(request)
    service.stream(stream)
    if (wrong := caller.feeding_refusal(stream, device)) is not None:
        service.refuse_log(request, wrong)
        raise refused(403, wrong)
    body = await request.body()
    kind = request.headers.get("content-type", "application/json")
    return await run_in_threadpool(_push, service, stream, body, kind, device, sequence)


def _push(
    service: Service, stream: str, body: bytes, kind: str, device: str | None, sequence: int | None
) -> dict[str, Any]:
    fleet = service.fleet
    if (behind := fleet.unread(stream)) > service.limits.unread:
        msg = f"'{stream}' is {behind} entries ahead of its readers; send again a little later"
        raise refused(429, msg, **{"Retry-After": "1"})
    rows = parse(body, kind, fleet.deployment.streams[StreamId(stream)])
    taken = fleet.push(stream, rows, device=DeviceId(device) if device else None, sequence=sequence)
    return {"taken": taken, "rows": len(rows)}
