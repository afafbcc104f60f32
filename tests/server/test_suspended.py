"""A query that has no place says so, whoever asks: nobody waits for rows that cannot come."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.server.access import Access
from tests.cli.conftest import Call, call
from tests.server.conftest import Running

APART = "sites: [{id: west, region: edge-west}, {id: east, region: edge-east}]\n"
__all__ = ["call"]
SQL = "SELECT train, boarded, ts FROM passengers WHERE boarded > 1"


def prepared(fleet: Fleet) -> None:
    fleet.topology.load(APART)
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    fleet.device("t1", site="west", streams=["passengers"])
    fleet.device("t2", site="east", streams=["passengers"])


def test_two_sites_without_a_link(
    open_fleet: Callable[..., Fleet], call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = open_fleet()
    prepared(fleet)
    fleet.start()
    with caplog.at_level(logging.WARNING):
        query = fleet.submit(SQL, "both")
    assert "query 'both' is suspended: " in caplog.text
    assert "no path" in caplog.text
    assert "add a link" in caplog.text
    assert "no link connects" in fleet.explain(SQL)
    assert "== Suspended ==" in query.explain()
    told = call("submit", fleet.root, "again", SQL)
    assert "suspended: again: " in told.stderr, told.output
    assert "both is suspended: " in call("status", fleet.root, "-o", "table").stdout
    server = Running(fleet, Access([]), None)
    with server.client() as client:
        sent = client.post("/v1/queries", json={"name": "third", "sql": SQL}).json()
        assert "no path" in sent["suspended"]["third"]
        assert "no link connects" in client.post("/v1/explain", json={"sql": SQL}).json()["plan"]
        linked = client.post("/v1/changes", json={"changes": ["link west - east added"]}).json()
        assert linked["suspended"] == {}
    server.stop()
    assert "suspended" not in query.explain().lower()
    assert "no link connects" not in fleet.explain(SQL)
