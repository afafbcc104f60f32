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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import pyarrow as pa

from bench.service import mqtt, page
from bench.service.load import post_for, request
from bench.service.subscribers import pushed

TOPOLOGY = """
sites: [{id: west, region: edge-west, lat: 52.53, lon: 13.28}, {id: cloud, region: cloud, lat: 52.51, lon: 13.47}]
links: [{from: west, to: cloud}]
"""
ARROW = "application/vnd.apache.arrow.stream"
#: seconds of each measurement
SECONDS, CLIENTS, SUBSCRIBERS = 8.0, 4, 100
#: connections over which single rows are posted
POSTERS = 64
#: rows before the first that counts (Spark compiles the query's plans), and rows that count
WARM, ROWS = 6, 20


PARTS = ("ingest", "push", "page", "mqtt")


@contextmanager
def serving() -> Iterator[str]:
    """`godwit serve` in a process of its own; its address."""
    with tempfile.TemporaryDirectory() as folder:
        topology = Path(folder) / "topology.yaml"
        topology.write_text(TOPOLOGY)
        command = [sys.executable, "-m", "godwit", "serve", f"{folder}/fleet", "--port", "0", "--topology", topology]
        said = Path(folder) / "server.log"  # (a pipe that nobody empties would hold the server up)
        with said.open("w") as out:
            process = subprocess.Popen(command, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        try:
            yield _address(process, said)
        finally:
            ended = process.poll()
            process.terminate()
            process.wait(60)
            if ended is not None:
                print(f"the server has ended with {ended}: {said.read_text()[-2000:]}", file=sys.stderr)


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    """As soon as the server says it."""
    while process.poll() is None:
        if found := re.search(r"http://[\d.:]+", said.read_text()):
            return found[0]
        time.sleep(0.05)
    msg = f"the server has not started: {said.read_text()}"
    raise RuntimeError(msg)


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


def figures(parts: Sequence[str] = PARTS) -> Iterator[dict[str, Any]]:
    """The parts that use the server share one."""
    if set(parts) - {"mqtt"}:
        with serving() as url, httpx.Client(base_url=url, timeout=60) as http:
            _declare(http)
            if "ingest" in parts:
                yield from _taken_in(url)
            if "push" in parts:
                sql = "SELECT device, n, ts FROM readings"
                http.post("/v1/queries", json={"name": "all", "sql": sql}).raise_for_status()
                yield from _pushed(url)
            if "page" in parts:
                yield from page.figures(url, CLIENTS)
    if "mqtt" in parts:
        yield from mqtt.figures()


def _declare(http: httpx.Client) -> None:
    columns = "device string, n int, ts timestamp"
    http.post("/v1/streams", json={"name": "readings", "columns": columns, "device": "device"}).raise_for_status()
    for client in range(CLIENTS):
        body = {"site": "west", "streams": ["readings"]}
        http.put(f"/v1/devices/d{client}", json=body).raise_for_status()


def _taken_in(url: str) -> Iterator[dict[str, Any]]:
    for name, arrow, target in (("arrow_rows_per_s", 100, 50_000), ("single_posts_per_s", 0, 5_000)):
        rate, p99 = measured(url, arrow)
        ours = round(rate * max(arrow, 1))
        many = CLIENTS if arrow else POSTERS
        note = f"{many} connections, client on the same cores, acknowledged; p99 of one request {p99:.1f} ms"
        yield {"experiment": f"service/{name}", "ours": ours, "target": target, "met": ours >= target, "note": note}


def _pushed(url: str) -> Iterator[dict[str, Any]]:
    made = partial(single, "d0")
    from_request, from_commit = asyncio.run(pushed(url, SUBSCRIBERS, WARM, ROWS, made))
    complete = len(from_commit) >= ROWS * SUBSCRIBERS
    lost = "" if complete else f"; only {len(from_commit)} of {ROWS * SUBSCRIBERS} messages arrived"
    whole = f"from the request p50 {median(from_request):.1f}, p95 {quantiles(from_request, n=20)[18]:.1f} ms"
    p95 = quantiles(from_commit, n=20)[18]
    yield {
        "experiment": f"service/push_to_{SUBSCRIBERS}_subscribers_p95_ms",
        "ours": round(p95, 1),
        "target": 20,
        "met": p95 <= 20 and complete,
        "note": f"commit to arrival, {ROWS} rows; p50 {median(from_commit):.1f} ms; {whole}{lost}",
    }
