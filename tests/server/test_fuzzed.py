"""Requests that nobody would send: every documented route answers 2xx or 4xx, and the server stays well."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import hypothesis
import pytest
import schemathesis
from bench.service.malformed import FLAT_BLOCKS, measured, send, slope
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


def test_malformed_requests_are_refused(serve: Serve) -> None:
    server = serve(limits=ServerLimits(body=100_000))
    prepared(server)
    found = send(server.port, 1_500)
    assert not [status for status in found if status is not None and status >= 500], found
    assert found.get(422, 0) > 100
    with server.client() as client:
        assert client.get("/v1/ready").status_code == 200


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_malformed_requests_leave_memory_flat(serve: Serve) -> None:
    server = serve(limits=ServerLimits(body=100_000))
    prepared(server)
    samples, statuses = measured(server.port)
    print(f"answers {statuses}; after each part: {samples}")
    assert not [status for status in statuses if status.startswith("5")], statuses
    assert slope(samples, "blocks") <= FLAT_BLOCKS
