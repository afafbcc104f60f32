"""What holds for every request: a limit on bodies, and headers that keep browsers from doing more than they are told.

Written against ASGI itself: every row that a device posts passes through here.
"""

from __future__ import annotations

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"),
]
#: how the paths of responses that never end do
ENDLESS = ("/live", "/events")


class Guard:
    """`body`: bytes that a request's body may have; it must say how many it has."""

    def __init__(self, app: ASGIApp, body: int) -> None:
        self._app, self._body = app, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if scope["method"] == "HEAD" and not scope["path"].endswith(ENDLESS):
            scope = {**scope, "method": "GET"}  # (the server sends no body then)
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._body or b"chunked" in headers.get(b"transfer-encoding", b""):
            message = f"a body may have up to {self._body} bytes, and must say its length"
            await JSONResponse({"error": "TooLarge", "message": message}, 413)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)
