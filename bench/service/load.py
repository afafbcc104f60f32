"""A client that costs little: bytes of HTTP/1.1 over many connections of one event loop.

httpx takes a millisecond per request, so that measuring with it measures httpx.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit


async def _connection(host: str, port: int, request: Callable[[], bytes], until: float, took: list[float]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        while (began := time.monotonic()) < until:
            writer.write(request())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            body = await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200"):
                msg = f"the server has answered {head[:15]!r}: {body[:200]!r}"
                raise RuntimeError(msg)
            took.append(time.monotonic() - began)
    finally:
        writer.close()


def request(path: str, body: bytes, content_type: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: godwit\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def post_for(url: str, seconds: float, makers: list[Callable[[], bytes]]) -> list[float]:
    """Post over one connection per maker, each request once its predecessor is acknowledged; the seconds each took."""
    took: list[float] = []

    async def run() -> None:
        at, until = urlsplit(url), time.monotonic() + seconds
        assert at.hostname is not None
        assert at.port is not None
        await asyncio.gather(*(_connection(at.hostname, at.port, make, until, took) for make in makers))

    asyncio.run(run())
    return took
