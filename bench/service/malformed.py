"""10^5 malformed requests: no crash, no 5xx, and is what the server's process holds afterwards a leak or a warm heap?

Resident memory alone does not tell: it grows while the heap warms up and is fragmented. So after every part of the
requests four figures are taken, after a garbage collection: Python's allocated blocks and objects (a leak adds to them
with every request), resident memory, and resident memory once the C library has returned what it can (`malloc_trim`;
what that takes away was free already). The requests are sent by another process, which costs this one nothing.

    python -m bench.service malformed                     # the figures
    python -m bench.service.malformed --trace 20000       # which lines of source hold more after 20,000 than before
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
import socket
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any

import psutil

from godwit.api.fleet import Fleet
from godwit.server.background import page_of

#: requests between two samples; the first part fills caches and is left out
PART, PARTS = 20_000, 5
#: growth per request that is still called flat; one leaked object per request would be 1
FLAT_BLOCKS = 0.05
TOPOLOGY = "sites: [{id: west}, {id: east}]\nlinks: [{from: west, to: east}]\n"


@dataclass(frozen=True)
class Held:
    """What the process holds after so many requests."""

    requests: int
    blocks: int
    objects: int
    rss_kb: int
    trimmed_kb: int


def held(requests: int) -> Held:
    gc.collect()
    rss = psutil.Process().memory_info().rss // 1024
    ctypes.CDLL(None).malloc_trim(0)
    trimmed = psutil.Process().memory_info().rss // 1024
    return Held(requests, sys.getallocatedblocks(), len(gc.get_objects()), rss, trimmed)


def slope(samples: list[Held], figure: str) -> float:
    """Growth of a figure per request, once the first part has filled the caches."""
    return linear_regression([one.requests for one in samples], [getattr(one, figure) for one in samples]).slope


def measured(port: int, part: int = PART, parts: int = PARTS) -> tuple[list[Held], Counter[str]]:
    """(a sample after each part, answers by status: "None" is a connection that was closed without one)"""
    samples: list[Held] = []
    statuses: Counter[str] = Counter()
    for number in range(parts):
        command = [sys.executable, "-m", "bench.service.malformed", "--port", str(port), "--send", str(part)]
        sent = subprocess.run([*command, "--seed", str(number)], check=True, capture_output=True, text=True)
        statuses.update(json.loads(sent.stdout))
        samples.append(held((number + 1) * part))
    return samples, statuses


def figures() -> Iterator[dict[str, Any]]:
    with serving() as port:
        samples, statuses = measured(port)
    failed = sum(count for status, count in statuses.items() if status.startswith("5"))
    grown = round(slope(samples, "blocks"), 4)
    note = "; ".join(
        f"{one.requests}: {one.blocks} blocks, {one.objects} objects, {one.rss_kb} kB ({one.trimmed_kb} trimmed)"
        for one in samples
    )
    yield {"experiment": "service/malformed_5xx", "ours": failed, "target": 0, "met": not failed, "note": str(statuses)}
    flat = grown <= FLAT_BLOCKS
    yield {
        "experiment": "service/malformed_blocks_per_request", "ours": grown, "target": FLAT_BLOCKS, "met": flat,
        "note": note,
    }  # fmt: skip


@contextmanager
def serving() -> Iterator[int]:
    """The port of a server in this process, over a fleet that has one stream, one device and one query."""
    from godwit.engine.session import spark_session

    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder) / "fleet", spark_session(quick=True))
        fleet.topology.load(TOPOLOGY)
        fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
        fleet.device("t1", site="west", streams=["passengers"])
        fleet.submit("SELECT train, boarded, ts FROM passengers", "all")
        fleet.start()
        try:
            with page_of(fleet, 0) as url:
                yield int(url.rpartition(":")[2])
        finally:
            fleet.stop()


def malformed(rng: random.Random) -> bytes:
    """Something like an HTTP request: broken bodies, lengths, paths and types; sometimes no HTTP at all."""
    calls = [
        "POST /v1/streams/passengers/rows", "POST /v1/streams/passengers/rows?device=t1", "POST /v1/streams",
        "POST /v1/queries", "PATCH /v1/queries/all", "POST /v1/changes", "POST /v1/topology", "POST /v1/explain",
        "PUT /v1/devices/t1", "POST /v1/devices/t1/position", "GET /v1/queries/all/results", "POST /v1/tables",
        "POST /v1/queries/all/migrate", "POST /v1/streams/passengers/clocks", "GET /v1/commands/x",
    ]  # fmt: skip
    method, path = rng.choice(calls).split()
    if rng.random() < 0.1:
        path = "/" + "".join(chr(rng.randrange(33, 127)) for _ in range(rng.randrange(60)))
    if rng.random() < 0.1:
        method = rng.choice(["POST", "PUT", "PATCH", "DELETE", "GET", "BREW"])
    if rng.random() < 0.3:
        path += ("&" if "?" in path else "?") + rng.choice(
            ["sequence=x", "sequence=-1", "device=%00", "cursor=%ff", "limit=1e9", "wait=maybe"]
        )
    bodies = [
        b"", b"{", b"[" * 3000, b"null", b'{"name": ' + b"1" * 300 + b"}", rng.randbytes(rng.randrange(200)),
        b'[{"train": "t1", "boarded": 1e400, "ts": "9999-99-99"}]', b'{"sql": "' + b"(" * 2000 + b'", "name": "q"}',
        b'"\\ud800"', b'{"changes": ["device \\u0000 -> x"]}', b"\xff\xfe\x00",
    ]  # fmt: skip
    body = rng.choice(bodies)
    kinds = ["application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream", "text/plain", "\xff"]
    length = rng.choice([str(len(body))] * 12 + ["-1", "x", str(10**12)])
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {rng.choice(['admin'] * 5 + ['nobody', ''])}\r\n"
        f"Content-Type: {rng.choice(kinds)}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    return rng.randbytes(rng.randrange(100)) if rng.random() < 0.05 else head.encode("latin-1") + body


def answered(port: int, request: bytes) -> int | None:
    """The status; None: the server has closed the connection without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        try:
            start = connection.recv(64)
        except ConnectionResetError:
            return None
    return int(start[9:12]) if start.startswith(b"HTTP/1.1 ") else None


def send(port: int, count: int, seed: int = 7) -> Counter[int | None]:
    rng = random.Random(seed)
    return Counter(answered(port, malformed(rng)) for _ in range(count))


def trace(requests: int) -> None:
    """Print the lines of source whose memory has grown most, after as many requests to warm up."""
    with serving() as port:
        measured(port, requests, 1)
        tracemalloc.start(8)
        measured(port, requests // 10, 1)
        gc.collect()
        before = tracemalloc.take_snapshot()
        measured(port, requests, 1)
        gc.collect()
        for grown in tracemalloc.take_snapshot().compare_to(before, "lineno")[:20]:
            print(grown)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--send", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--trace", type=int, default=PART)
    told = parser.parse_args()
    if told.send:
        print(json.dumps({str(status): count for status, count in send(told.port, told.send, told.seed).items()}))
    else:
        trace(told.trace)


if __name__ == "__main__":
    main()
