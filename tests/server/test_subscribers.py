"""A thousand subscribers, most of them slow, get their results, and hold neither the engine nor each other up."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import httpx
import pytest

from godwit.api.fleet import Fleet
from godwit.server.background import page_of
from godwit.server.limits import ServerLimits
from tests.server.conftest import TOPOLOGY, Running
from tests.waiting import until

COUNT, READING, ROWS = 1_000, 300, 40

#: what a subscriber has seen of a row: its number, and when it was committed
Seen = tuple[int, float]


async def follow(port: int, reads: bool, connected: asyncio.Semaphore, got: list[list[Seen]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
    writer.write(b"GET /v1/queries/all/live HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer read\r\n\r\n")
    await reader.readuntil(b": connected")
    connected.release()
    seen: list[Seen] = []
    while reads and len(seen) < ROWS:
        line = await reader.readline()
        if line.startswith(b"data:"):
            told = json.loads(line[5:])
            seen += [(row["boarded"], told["at"]) for row in told["rows"]]
    if not reads:
        await asyncio.sleep(3600)
    got.append(seen)
    writer.close()


class Feed:
    """One device, which sends a numbered row at a time."""

    def __init__(self, client: httpx.Client) -> None:
        columns = "train string, boarded int, ts timestamp"
        client.post("/v1/streams", json={"name": "passengers", "columns": columns, "device": "train"})
        client.put("/v1/devices/t1", json={"site": "west", "streams": ["passengers"]})
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})
        self.client, self.sent = client, 0

    def push(self) -> tuple[Seen, float]:
        """(number and when it was sent, seconds until the answer)"""
        self.sent += 1
        row = {"train": "t1", "boarded": self.sent, "ts": f"2026-01-01T00:{self.sent // 60:02d}:{self.sent % 60:02d}Z"}
        began, at = time.monotonic(), time.time()
        self.client.post("/v1/streams/passengers/rows", json=row).raise_for_status()
        return (self.sent, at), time.monotonic() - began


async def follow_all(port: int, count: int, reading: int, pipe: Connection) -> None:
    """`count` follow, of whom `reading` read; says when all are connected, and at last what they have seen."""
    connected, got = asyncio.Semaphore(0), list[list[Seen]]()
    tasks = [asyncio.create_task(follow(port, k < reading, connected, got)) for k in range(count)]
    for _ in tasks:
        await asyncio.wait_for(connected.acquire(), 60)
    pipe.send("connected")
    await asyncio.wait_for(asyncio.gather(*tasks[:reading]), 120)
    pipe.send(got)
    for task in tasks:
        task.cancel()


def followers(port: int, count: int, reading: int, pipe: Connection) -> None:
    asyncio.run(follow_all(port, count, reading, pipe))


def told(pipe: Connection) -> Any:
    assert pipe.poll(180), "the followers say nothing"
    return pipe.recv()


def followed(port: int, feed: Feed, count: int, reading: int) -> tuple[float, float, int]:
    """Push rows while others follow, in a process of their own: the medians (ms) of an answer, and from a request to
    the row's commit; and what one subscriber more is answered."""
    spawn = get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=followers, args=(port, count, reading, theirs), daemon=True)
    process.start()
    try:
        assert told(mine) == "connected"
        more = feed.client.get("/v1/queries/all/live").status_code if count == COUNT else 0
        pushed = []
        for _ in range(ROWS):
            pushed.append(feed.push())
            time.sleep(0.1)  # (by the clock: what is asked is whether a row's way is longer, not how many go)
        got: list[list[Seen]] = told(mine)
    finally:
        process.terminate()
        process.join(20)
    sent = dict(one for one, _ in pushed)
    assert [[number for number, _ in seen] for seen in got] == [list(sent)] * reading  # each once, in order
    committed = [1000 * (at - sent[number]) for number, at in got[0]]
    return median(1000 * seconds for _, seconds in pushed), median(committed), more


@pytest.mark.full
def test_a_thousand_subscribers(serve: Callable[..., Running]) -> None:
    server = serve(limits=ServerLimits(subscribers=COUNT))
    with server.client() as client:
        feed = Feed(client)
        for _ in range(20):
            feed.push()
        until(lambda: len(client.get("/v1/queries/all/results").json()["rows"]) == feed.sent)  # (compiled)
        alone = followed(server.port, feed, 1, 1)
        many = followed(server.port, feed, COUNT, READING)
        print(f"one subscriber: answer {alone[0]:.1f} ms, commit {alone[1]:.1f} ms; ", end="")
        print(f"{COUNT}, of whom {COUNT - READING} do not read: answer {many[0]:.1f} ms, commit {many[1]:.1f} ms")
        assert many[2] == 503  # one more than there may be
        assert many[1] < 2 * alone[1] + 20  # the engine is not held up
        assert len(client.get("/v1/queries/all/results").json()["rows"]) == feed.sent


def test_a_server_that_stops_lets_those_go_who_follow(
    open_fleet: Callable[..., Fleet], caplog: pytest.LogCaptureFixture
) -> None:
    fleet, seen, connected = open_fleet(), list[str](), threading.Event()
    fleet.topology.load(TOPOLOGY)
    fleet.start()

    def follow_events(address: str) -> None:
        with httpx.stream("GET", f"{address}/v1/events", timeout=20) as response:
            for line in response.iter_lines():
                seen.append(line)
                connected.set()

    with page_of(fleet, 0) as address:
        follower = threading.Thread(target=follow_events, args=(address,))
        follower.start()
        assert connected.wait(20)
    follower.join(20)
    assert ": the server stops" in seen
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
