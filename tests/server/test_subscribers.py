"""A thousand subscribers, most of them slow, get their results, and hold neither the engine nor each other up."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from godwit.server.limits import ServerLimits
from tests.server.conftest import Running
from tests.waiting import until

COUNT, READING, ROWS = 1_000, 300, 10


async def follow(port: int, reads: bool, connected: asyncio.Semaphore, got: list[list[int]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
    writer.write(b"GET /v1/queries/all/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer read\r\n\r\n")
    await reader.readuntil(b": connected")
    connected.release()
    seen: list[int] = []
    while reads and len(seen) < ROWS:
        line = await reader.readline()
        if line.startswith(b"data:"):
            seen += [row["boarded"] for row in json.loads(line[5:])["rows"]]
    got.append(seen)
    if not reads:
        await asyncio.sleep(3600)
    writer.close()


@pytest.mark.full
def test_a_thousand_subscribers(serve: Callable[..., Running]) -> None:
    server = serve(limits=ServerLimits(subscribers=COUNT))
    with server.client() as client:
        columns = "train string, boarded int, ts timestamp"
        client.post("/v1/streams", json={"name": "passengers", "columns": columns, "device": "train"})
        client.put("/v1/devices/t1", json={"site": "west", "streams": ["passengers"]})
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})

        def push(number: int) -> float:
            row = {"train": "t1", "boarded": number, "ts": f"2026-01-01T00:00:{number:02d}Z"}
            began = time.monotonic()
            client.post("/v1/streams/passengers/rows", json=row).raise_for_status()
            return time.monotonic() - began

        async def run() -> tuple[list[float], int, list[list[int]]]:
            connected, got = asyncio.Semaphore(0), list[list[int]]()
            tasks = [asyncio.create_task(follow(server.port, k < READING, connected, got)) for k in range(COUNT)]
            for _ in tasks:
                await asyncio.wait_for(connected.acquire(), 60)
            refused = await asyncio.to_thread(lambda: client.get("/v1/queries/all/live").status_code)
            took = [await asyncio.to_thread(push, number) for number in range(ROWS)]
            await asyncio.wait_for(asyncio.gather(*tasks[:READING]), 60)
            for task in tasks:
                task.cancel()
            return took, refused, got

        alone = [push(number) for number in range(5)]
        until(lambda: len(client.get("/v1/queries/all/results").json()["rows"]) == 5)  # (compiled)
        took, refused, got = asyncio.run(run())
        assert sorted(map(tuple, got)) == [tuple(range(ROWS))] * READING  # each of them once, in order
        assert refused == 503  # one more than there may be
        assert max(took) < max(alone) + 2.0
        assert len(client.get("/v1/queries/all/results").json()["rows"]) == ROWS + 5
