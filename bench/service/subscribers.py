"""How fast a committed result reaches many subscribers; raw sockets, so that the clients cost little."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from urllib.parse import urlsplit


async def _listen(host: str, port: int, connected: asyncio.Semaphore, got: list[tuple[float, bytes]]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /v1/queries/all/live HTTP/1.1\r\nHost: godwit\r\n\r\n")
    try:
        await reader.readuntil(b": connected")
        connected.release()
        while line := await reader.readline():
            if line.startswith(b"data:"):
                got.append((time.time(), line))
    finally:
        writer.close()


async def pushed(
    url: str, subscribers: int, warm: int, rows: int, request: Callable[[], bytes]
) -> tuple[list[float], list[float]]:
    """Milliseconds to each subscriber: from the request that brought a row, and from the commit of its result."""
    at = urlsplit(url)
    assert at.hostname is not None
    assert at.port is not None
    got: list[tuple[float, bytes]] = []
    connected, sent = asyncio.Semaphore(0), list[float]()
    tasks = [asyncio.create_task(_listen(at.hostname, at.port, connected, got)) for _ in range(subscribers)]
    for _ in tasks:
        await connected.acquire()
    counted: list[tuple[float, float, bytes]] = []
    for number in range(warm + rows):
        await asyncio.sleep(0.5)
        got.clear()
        # (the first result waits for Spark's compiler, for longer than the server keeps an idle connection)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        body = request()
        sent.append(time.time())
        writer.write(body)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
        writer.close()
        until = time.monotonic() + 10
        while len(got) < subscribers and time.monotonic() < until:
            await asyncio.sleep(0.005)
        if number >= warm:
            counted += [(sent[-1], arrived, line) for arrived, line in got]
    for task in tasks:
        task.cancel()
    commits = [json.loads(line[5:])["at"] for _, _, line in counted]
    from_request = [1000 * (arrived - began) for began, arrived, _ in counted]
    return from_request, [1000 * (one[1] - commit) for one, commit in zip(counted, commits, strict=True)]
