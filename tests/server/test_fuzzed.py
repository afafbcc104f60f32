"""Requests that nobody would send: every documented route answers 2xx or 4xx, and the server stays well."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable

import httpx
import hypothesis
import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import checks

from godwit.server.limits import ServerLimits
from tests.server.conftest import Running

Serve = Callable[..., Running]


def prepared(server: Running) -> None:
    with server.client() as client:
        columns = "train string, boarded int, ts timestamp"
        client.post("/v1/streams", json={"name": "passengers", "columns": columns, "device": "train"})
        client.put("/v1/devices/t1", json={"site": "west", "streams": ["passengers"]})
        client.post("/v1/queries", json={"name": "all", "sql": "SELECT train, boarded, ts FROM passengers"})


def fuzz(server: Running, examples: int) -> int:
    """Ask every operation but those that never end; returns how many were asked."""
    document = httpx.get(f"{server.url}/v1/openapi.json", timeout=60).json()
    live = ("/v1/queries/{name}/live", "/v1/events")
    document["paths"] = {path: told for path, told in document["paths"].items() if path not in live}
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @settings
        def ask(case: schemathesis.Case) -> None:
            nonlocal asked
            asked += 1
            response = case.call(headers={"Authorization": "Bearer admin"}, timeout=60)
            case.validate_response(response, checks=[checks.not_a_server_error])

        ask()
    return asked


def test_no_request_that_fits_the_document_makes_the_server_fail(serve: Serve) -> None:
    server = serve()
    prepared(server)
    assert fuzz(server, 5) >= 50
    with server.client() as client:
        assert client.get("/v1/ready").status_code == 200


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_same_for_longer(serve: Serve) -> None:
    server = serve()
    prepared(server)
    print(f"{fuzz(server, 100)} requests that fit the document")


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


def send_malformed(server: Running, count: int, seed: int = 7) -> dict[int | None, int]:
    rng, found = random.Random(seed), dict[int | None, int]()
    for _ in range(count):
        status = answered(server.port, malformed(rng))
        found[status] = found.get(status, 0) + 1
    return found


def test_malformed_requests_are_refused(serve: Serve) -> None:
    server = serve(limits=ServerLimits(body=100_000))
    prepared(server)
    found = send_malformed(server, 1_500)
    assert not [status for status in found if status is not None and status >= 500], found
    assert found.get(422, 0) > 100
    with server.client() as client:
        assert client.get("/v1/ready").status_code == 200


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_malformed_requests_leave_memory_flat(serve: Serve) -> None:
    server = serve(limits=ServerLimits(body=100_000))
    prepared(server)
    held, found = [], dict[int | None, int]()
    for part in range(5):  # (the first fills caches)
        for status, count in send_malformed(server, 20_000, seed=part).items():
            found[status] = found.get(status, 0) + count
        held.append(psutil.Process(os.getpid()).memory_info().rss / 1e6)
    print(f"answers {found}; MB after each 20,000: {[round(one) for one in held]}")
    assert not [status for status in found if status is not None and status >= 500], found
    assert held[-1] - held[0] < 50
