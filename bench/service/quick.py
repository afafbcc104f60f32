"""Headline figures of the service: rows per second that are acknowledged (durable), and how fast results are pushed.

One server process over loopback; the client is here, so its cost is on the same two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import pyarrow as pa

from bench.service import mqtt
from bench.service.load import post_for, request

TOPOLOGY = "sites: [{id: west, region: edge-west}, {id: cloud, region: cloud}]\nlinks: [{from: west, to: cloud}]\n"
ARROW = "application/vnd.apache.arrow.stream"
#: seconds of each measurement
SECONDS, CLIENTS, SUBSCRIBERS = 8.0, 4, 100
#: connections over which single rows are posted
POSTERS = 64
#: rows before the first that counts: Spark compiles the query's plans
WARM = 6


@contextmanager
def serving() -> Iterator[str]:
    """`godwit serve` in a process of its own; its address."""
    with tempfile.TemporaryDirectory() as folder:
        topology = Path(folder) / "topology.yaml"
        topology.write_text(TOPOLOGY)
        command = [sys.executable, "-m", "godwit", "serve", f"{folder}/fleet", "--port", "0", "--topology", topology]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        try:
            assert process.stderr is not None
            address = next(found[0] for text in process.stderr if (found := re.search(r"http://[\d.:]+", text)))
            yield address
        finally:
            process.terminate()
            process.wait(60)


def arrow_rows(count: int, device: str) -> bytes:
    now = time.time_ns() // 1000
    table = pa.table(
        {
            "device": pa.array([device] * count),
            "n": pa.array(range(count), pa.int32()),
            "ts": pa.array([now + k for k in range(count)], pa.timestamp("us", "UTC")),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue().to_pybytes()


def single(device: str) -> bytes:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = json.dumps({"device": device, "n": 1, "ts": stamp}).encode()
    return request(f"/v1/streams/readings/rows?device={device}", body, "application/json")


def batch(device: str, rows: int) -> bytes:
    return request(f"/v1/streams/readings/rows?device={device}", arrow_rows(rows, device), ARROW)


def measured(url: str, arrow: int) -> tuple[float, float]:
    """(requests per second over all connections, p99 of one in milliseconds)"""
    makers = [
        partial(batch, f"d{k % CLIENTS}", arrow) if arrow else partial(single, f"d{k % CLIENTS}")
        for k in range(CLIENTS if arrow else POSTERS)
    ]
    took = post_for(url, SECONDS, makers)
    return len(took) / SECONDS, quantiles(took, n=100)[98] * 1000


async def pushed(url: str) -> list[float]:
    """Milliseconds from the acknowledgement of a row to its arrival at each of many subscribers."""
    sent_at, delays = [0.0], []
    connected = asyncio.Semaphore(0)

    async def listen(http: httpx.AsyncClient) -> None:
        async with http.stream("GET", "/v1/queries/all/live", timeout=60) as response:
            async for line in response.aiter_lines():
                if line.startswith(":"):
                    connected.release()
                elif line.startswith("data:"):
                    took = (time.monotonic() - sent_at[0]) * 1000
                    delays.extend(took for _ in json.loads(line[5:])["rows"])

    limits = httpx.Limits(max_connections=SUBSCRIBERS + 4)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
        tasks = [asyncio.create_task(listen(http)) for _ in range(SUBSCRIBERS)]
        for _ in tasks:
            await connected.acquire()
        for number in range(WARM + 10):
            await asyncio.sleep(0.5)
            if number == WARM:
                delays.clear()
            body = arrow_rows(1, "d0")
            sent_at[0] = time.monotonic()
            await http.post("/v1/streams/readings/rows?device=d0", content=body, headers={"content-type": ARROW})
        await asyncio.sleep(1)
        for task in tasks:
            task.cancel()
    return delays


def figures() -> Iterator[dict[str, Any]]:
    with serving() as url, httpx.Client(base_url=url, timeout=60) as http:
        columns = "device string, n int, ts timestamp"
        http.post("/v1/streams", json={"name": "readings", "columns": columns, "device": "device"}).raise_for_status()
        for client in range(CLIENTS):
            body = {"site": "west", "streams": ["readings"]}
            http.put(f"/v1/devices/d{client}", json=body).raise_for_status()
        for name, arrow, target in (("arrow_rows_per_s", 100, 50_000), ("single_posts_per_s", 0, 5_000)):
            rate, p99 = measured(url, arrow)
            ours = round(rate * max(arrow, 1))
            many = CLIENTS if arrow else POSTERS
            note = f"{many} connections, client on the same cores, acknowledged; p99 of one request {p99:.1f} ms"
            yield {"experiment": f"service/{name}", "ours": ours, "target": target, "met": ours >= target, "note": note}
        http.post("/v1/queries", json={"name": "all", "sql": "SELECT device, n, ts FROM readings"}).raise_for_status()
        delays = asyncio.run(pushed(url))
        p95 = quantiles(delays, n=20)[18]
        note = f"{SUBSCRIBERS} subscribers, 10 rows; request with a row to its arrival; p50 {median(delays):.1f} ms"
        complete = len(delays) >= 10 * SUBSCRIBERS
        yield {
            "experiment": "service/push_to_100_subscribers_p95_ms",
            "ours": round(p95, 1),
            "target": 20,
            "met": p95 <= 20 and complete,
            "note": note + ("" if complete else f"; only {len(delays)} of {10 * SUBSCRIBERS} messages arrived"),
        }
    yield from mqtt.figures()
