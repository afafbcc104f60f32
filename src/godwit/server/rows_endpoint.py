"""`POST /v1/streams/{stream}/rows` as plain ASGI: rows come far more often than anything else, and a request with one
row costs more in a framework than in the fleet. Documented by the route of the same name (`routes/streams.py`)."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote

from fastapi import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from godwit.errors import GodwitError, SourceError
from godwit.ids import DeviceId, StreamId
from godwit.ingest.together import Parcel
from godwit.server.access import Role
from godwit.server.arrivals import SITE, check_feeder, check_room, outcome, parsed, take
from godwit.server.problems import problem, status_of
from godwit.server.problems import refusal as body_of
from godwit.server.service import Service

_PATH = re.compile(r"/v1/streams/([^/]+)/rows")
_SITE = SITE.encode()
_JSON = (b"content-type", b"application/json")


class RowsEndpoint:
    """Answers posts of rows; everything else goes to the application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        try:
            status, answer = 200, await self._take(found[1], HTTPConnection(scope), receive)
        except GodwitError as error:
            status, answer = status_of(error), problem(error)
        except HTTPException as refusal:
            status, answer, headers = refusal.status_code, body_of(refusal), dict(refusal.headers or {})
        body = json.dumps(answer).encode()
        more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *more]})
        await send({"type": "http.response.body", "body": body})

    async def _take(self, stream: str, connection: HTTPConnection, receive: Receive) -> dict[str, Any]:
        service = self._service
        caller = service.caller(connection, Role.FEED)
        declared = service.stream(unquote(stream))
        asked = dict(parse_qsl(connection.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        device, sequence = asked.get("device") or None, _number(asked.get("sequence"))
        check_feeder(service, connection, caller, declared.id, device)
        check_room(service, declared.id)
        headers = dict(connection.scope["headers"])
        body = await _body(receive)
        rows = await parsed(body, headers.get(b"content-type", b"application/json").decode("latin-1"), declared)
        parcel = Parcel(StreamId(declared.id), rows, DeviceId(device) if device else None, sequence)
        taken = await take(
            service, caller, parcel, asked.get("site") or headers.get(SITE.encode(), b"").decode("latin-1") or None
        )
        return outcome(parcel, taken)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text) > 0):
        msg = f"sequence '{text[:40]}' is no number of a request; count from 1"
        raise SourceError(msg)
    return int(text)


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            msg = "the sender has gone before all rows had come"
            raise SourceError(msg)
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
