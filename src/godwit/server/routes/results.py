"""Results by pages, and live: as server-sent events or over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, WebSocket, WebSocketDisconnect
from sse_starlette import EventSourceResponse

from godwit.server.access import Caller, Role
from godwit.server.hub import Hub
from godwit.server.problems import refused
from godwit.server.result_pages import page
from godwit.server.service import EVENTS, Service, check_socket, needs, results_topic, service_of

router = APIRouter(prefix="/v1", tags=["results"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
#: seconds after which a quiet connection is shown to be alive
PING = 15


@router.get("/queries/{name}/results")
def results(
    request: Request,
    name: str,
    caller: Reader,
    cursor: Annotated[str | None, Query(max_length=20_000)] = None,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> dict[str, Any]:
    """Committed results, oldest first; go on with the cursor of the page before."""
    service = service_of(request)
    return page(service.fleet, service.known_query(name), cursor, limit)


@router.get("/queries/{name}/live", response_class=EventSourceResponse)
async def live(request: Request, name: str, caller: Reader) -> EventSourceResponse:
    """Results as they are committed, from now on."""
    service = service_of(request)
    return _sse(service, results_topic(service.query(name)))


@router.get("/events", response_class=EventSourceResponse)
async def events(request: Request, caller: Reader) -> EventSourceResponse:
    """Reconfigurations as they are decided, acknowledged and completed."""
    return _sse(service_of(request), EVENTS)


@router.websocket("/queries/{name}/socket")
async def socket(websocket: WebSocket, name: str) -> None:
    """The same over a WebSocket: one JSON text per commit."""
    service = service_of(websocket)
    try:
        check_socket(websocket, Role.READ)
        topic = results_topic(service.query(name))
        _check_room(service.hub)
    except HTTPException as fault:
        await websocket.close(4000 + fault.status_code, str(fault.detail.get("message", ""))[:120])  # type: ignore[attr-defined]
        return
    await websocket.accept()
    with service.hub.subscribed(topic) as one:
        gone = asyncio.ensure_future(_until_gone(websocket))
        try:
            while not gone.done():
                taking = asyncio.ensure_future(one.queue.get())
                await asyncio.wait({taking, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    break
                if text := taking.result().text:
                    await websocket.send_text(text)
                if one.ended and one.queue.empty():
                    await websocket.close(1013)
                    break
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            gone.cancel()


async def _until_gone(websocket: WebSocket) -> None:
    try:
        while True:
            await websocket.receive()
    except (WebSocketDisconnect, RuntimeError):
        return


def _sse(service: Service, topic: str) -> EventSourceResponse:
    _check_room(service.hub)

    async def messages() -> AsyncIterator[bytes]:
        with service.hub.subscribed(topic) as one:
            yield b": connected\r\n\r\n"
            while not (one.ended and one.queue.empty()):
                yield (await one.queue.get()).event

    return EventSourceResponse(messages(), ping=PING)


def _check_room(hub: Hub) -> None:
    if hub.full:
        raise refused(503, "too many live connections; try again later", **{"Retry-After": "5"})
