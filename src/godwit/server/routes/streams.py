"""Streams: declare them, look at them, and send rows, by posts or over a WebSocket."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import MutableMapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, WebSocket, WebSocketDisconnect

from godwit.control.commands import AlterStream
from godwit.errors import GodwitError, SourceError
from godwit.ids import DeviceId
from godwit.ingest.row_formats import ARROW
from godwit.ingest.together import Parcel
from godwit.model.plan import Stream
from godwit.server.access import Caller, Role
from godwit.server.arrivals import SITE, check_feeder, check_room, move, outcome, parsed, take
from godwit.server.bodies import Clocks, NewColumns, NewStream, RowsTaken
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.problems import problem
from godwit.server.service import Service, check_socket, described, needs, service_of

router = APIRouter(prefix="/v1/streams", tags=["streams"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Feeder = Annotated[Caller, Depends(needs(Role.FEED))]
Admin = Annotated[Caller, Depends(needs(Role.ADMIN))]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@router.get("")
def streams(request: Request, caller: Reader) -> list[dict[str, Any]]:
    """All streams and their columns."""
    fleet = service_of(request).fleet
    return [described(stream) for _, stream in sorted(fleet.deployment.streams.items())]


@router.get("/{stream}")
def stream(request: Request, stream: str, caller: Reader) -> dict[str, Any]:
    """One stream: its columns, and the devices that feed it."""
    service = service_of(request)
    declared = service.stream(stream)
    return {**described(declared), "devices": list(service.fleet.deployment.feeds.get(declared.id, ()))}


@router.post("", status_code=201)
def declare(request: Request, body: NewStream, caller: Admin) -> dict[str, Any]:
    """Declare a stream. To say the same again changes nothing."""
    declared = body.model_dump()
    name, columns = declared.pop("name"), declared.pop("columns")
    return described(service_of(request).fleet.stream(name, columns, **declared))


@router.patch("/{stream}")
def alter(request: Request, stream: str, body: NewColumns, caller: Admin, wait: Wait = True) -> CommandSent:
    """Give a stream columns more while everything runs; rows without them have NULL there."""
    return send(request, AlterStream(service_of(request).stream(stream).id, body.add), wait)


@router.post("/{stream}/rows", openapi_extra={"requestBody": {"content": {"application/json": {}}}})
async def push(
    request: Request,
    stream: str,
    caller: Feeder,
    device: Annotated[str | None, Query(description="The sender, if all rows are of one.")] = None,
    sequence: Annotated[int | None, Query(ge=1, description="Makes a repeat of this request harmless.")] = None,
    site: Annotated[str | None, Query(description="Where they came in; elsewhere than before: a hand-over.")] = None,
) -> RowsTaken:
    """Send rows (JSON, JSON lines or an Arrow stream). When this returns, they are durable."""
    raise NotImplementedError  # (answered by `rows_endpoint.py`; this is its documentation)


@router.post("/{stream}/clocks")
def tell_time(request: Request, stream: str, body: Clocks, caller: Feeder) -> dict[str, Any]:
    """Attached devices without rows say how far they have come, so that windows can close."""
    service = service_of(request)
    service.stream(stream)
    for device in body.clocks:
        check_feeder(service, request, caller, stream, device)
    clocks = {DeviceId(device): _microseconds(at) for device, at in body.clocks.items()}
    service.fleet.tell_time(stream, clocks)
    return {"told": len(clocks)}


@router.websocket("/{stream}/socket")
async def socket(websocket: WebSocket, stream: str, device: str | None = None, site: str | None = None) -> None:
    """Rows of a device that stays connected: a message per batch, each answered when it is durable.

    Text: rows (an object, a list), {"sequence": 7, "rows": ...}, or {"position": {"lat": .., "lon": ..}}; bytes: an
    Arrow stream. To connect with `site` is to be attached there.
    """
    service = service_of(websocket)
    try:
        caller = check_socket(websocket, Role.FEED)
        declared = service.stream(stream)
        check_feeder(service, websocket, caller, stream, device)
        site = site or websocket.headers.get(SITE)
        if site is not None and device is not None:
            await take(service, caller, Parcel(declared.id, [], DeviceId(device)), site)
    except (HTTPException, GodwitError) as fault:
        code, message = _closing(fault)
        await websocket.close(code, message)
        return
    await websocket.accept()
    try:
        while True:
            received = await websocket.receive()
            if received["type"] == "websocket.disconnect":
                return
            await websocket.send_text(json.dumps(await _answer(service, caller, declared, device, received)))
    except (WebSocketDisconnect, RuntimeError):
        return  # (what was acknowledged is there; the device sends the rest again)


async def _answer(
    service: Service, caller: Caller, stream: Stream, device: str | None, message: MutableMapping[str, Any]
) -> dict[str, Any]:
    sequence: int | None = None
    try:
        check_room(service, stream.id)
        if message.get("bytes") is not None:
            rows = await parsed(message["bytes"], ARROW, stream)
        else:
            body = (message.get("text") or "").encode()
            if len(body) > service.limits.body:
                msg = f"a message may have up to {service.limits.body} bytes"
                raise SourceError(msg)
            rows = await parsed(body, "application/json", stream)
            asked = rows[0] if len(rows) == 1 and isinstance(rows[0], dict) else {}
            if "position" in asked and device is not None:
                return await _positioned(service, caller, DeviceId(device), stream, asked["position"])
            if "rows" in asked:
                sequence = _number(asked.get("sequence"))
                rows = await parsed(json.dumps(asked["rows"]).encode(), "application/json", stream)
        parcel = Parcel(stream.id, rows, DeviceId(device) if device else None, sequence)
        taken = await take(service, caller, parcel, None)
    except GodwitError as fault:
        return {**problem(fault), "sequence": sequence}
    except HTTPException as fault:
        retry = (fault.headers or {}).get("Retry-After")
        return {**_detail(fault), "status": fault.status_code, "retry_after": retry, "sequence": sequence}
    return {**outcome(parcel, taken), "sequence": sequence}


async def _positioned(
    service: Service, caller: Caller, device: DeviceId, stream: Stream, position: Any
) -> dict[str, Any]:
    if not (isinstance(position, dict) and all(isinstance(position.get(k), int | float) for k in ("lat", "lon"))):
        msg = 'a position is {"lat": 52.1, "lon": 4.3}, in degrees'
        raise SourceError(msg)
    site = service.locator.at(device, float(position["lat"]), float(position["lon"]))
    if site is not None:
        await move(service, caller, device, site, stream.id)
    known = service.fleet.topology.devices.get(device)
    return {"site": site or (None if known is None else known.site), "moved": site is not None}


def _number(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    msg = f"sequence {value!r} is no number of a message; count from 1"
    raise SourceError(msg)


def _detail(fault: HTTPException) -> dict[str, Any]:
    detail: Any = fault.detail
    return dict(detail) if isinstance(detail, dict) else {"message": str(detail)}


def _closing(fault: HTTPException | GodwitError) -> tuple[int, str]:
    if isinstance(fault, HTTPException):
        return 4000 + fault.status_code, str(_detail(fault).get("message", ""))[:120]
    return 4422, str(fault)[:120]


def _microseconds(at: dt.datetime | int) -> int:
    if isinstance(at, int):
        return at
    return ((at if at.tzinfo else at.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(microseconds=1)
