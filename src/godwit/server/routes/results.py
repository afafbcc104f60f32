"""Results by pages, and live: as server-sent events or over a WebSocket."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query, Request, WebSocket, WebSocketDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from godwit.server.access import Caller, Role
from godwit.server.hub import Hub
from godwit.server.problems import refused
from godwit.server.result_pages import newest as newest_page
from godwit.server.result_pages import page
from godwit.server.service import EVENTS, Service, check_socket, needs, results_topic, service_of

router = APIRouter(prefix="/v1", tags=["results"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
#: seconds after which a quiet connection is shown to be alive
PING_EVERY = 15


class LiveEvents(Response):
    """Server-sent events, as plain ASGI: a framework's tasks per connection cost more than what they send."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, topic: str, status_code: int = 200) -> None:
        super().__init__(status_code=status_code, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._hub, self._topic = hub, topic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def body(content: bytes, more: bool = True) -> Message:
            return {"type": "http.response.body", "body": content, "more_body": more}

        with self._hub.subscribed(self._topic) as one:
            gone = asyncio.ensure_future(_until_disconnected(receive))
            gone.add_done_callback(lambda _: one.end())
            try:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send(body(b": connected\r\n\r\n"))
                while not one.ended:
                    if messages := await one.news(PING_EVERY):
                        await send(body(b"".join(news.event for news in messages)))
                if not gone.done():
                    await send(body(b"", more=False))
            except OSError:
                pass  # it has gone
            finally:
                gone.cancel()


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get("/queries/{name}/results")
def results(
    request: Request,
    name: str,
    caller: Reader,
    cursor: Annotated[str | None, Query(max_length=20_000)] = None,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
    newest: bool = False,
) -> dict[str, Any]:
    """Committed results, oldest first; go on with the cursor of the page before. `newest`: begin with the last ones."""
    service = service_of(request)
    if newest and cursor is None:
        return newest_page(service.fleet, service.known_query(name), limit)
    return page(service.fleet, service.known_query(name), cursor, limit)


@router.get("/queries/{name}/live", response_class=LiveEvents)
async def live(request: Request, name: str, caller: Reader) -> LiveEvents:
    """Results as they are committed, from now on."""
    service = service_of(request)
    return _sse(service, results_topic(service.query(name)))


@router.get("/events", response_class=LiveEvents)
async def events(request: Request, caller: Reader) -> LiveEvents:
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
        gone.add_done_callback(lambda _: one.end())
        try:
            while not one.ended:
                for news in await one.news(PING_EVERY):
                    if news.text:
                        await websocket.send_text(news.text)
            if not gone.done():
                await websocket.close(1013)
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


def _sse(service: Service, topic: str) -> LiveEvents:
    _check_room(service.hub)
    return LiveEvents(service.hub, topic)


def _check_room(hub: Hub) -> None:
    if hub.full:
        raise refused(503, "too many live connections; try again later", **{"Retry-After": "5"})
