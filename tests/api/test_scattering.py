"""Results of queries without state leave in the region that reads their rows, all of them, once, and in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.errors import DeploymentError
from godwit.ids import QueryId, RegionId
from godwit.model.topology import Link, Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SQL = "SELECT train, n, ts FROM trains WHERE n >= {}"
SITES = ("west", "east", "cloud")


def row(train: str, n: int) -> dict[str, Any]:
    return {"train": train, "n": n, "ts": START + dt.timedelta(seconds=n)}


def fleet_of(opened: Callable[..., Fleet], **options: Any) -> Fleet:
    fleet = opened(**options)
    sites = [Site(name, f"at-{name}", 10.0 if name == "cloud" else 1.0) for name in SITES]  # type: ignore[arg-type]
    links = [Link("west", "cloud"), Link("east", "cloud")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, links))
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    for train, site in (("t1", "west"), ("t2", "east")):
        fleet.device(train, site=site, streams=["trains"])
    return fleet


def regions_that_run(fleet: Fleet, query: str) -> set[RegionId]:
    return {runner.region for runner in fleet.pool.of_shape(fleet.execution(QueryId(query)).shape.key)}


def test_no_row_leaves_its_region_and_each_is_answered_once_in_order(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    query, heard = fleet.submit(SQL.format(1), "q"), list[tuple[str, int]]()
    query.write_to(CallbackSink(lambda rows: heard.extend((r["train"], r["n"]) for r in rows)))
    for n in range(12):
        for train in ("t1", "t2"):
            fleet.device(train).push([row(train, n)])
        if n % 3 == 2:
            fleet.process_available()
        fleet.device("t1").attach(SITES[n % 2])
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().equal
    assert regions_that_run(fleet, "q") == {"at-west", "at-east"}
    for train in ("t1", "t2"):
        assert [n for name, n in heard if name == train] == list(range(1, 12))


def test_a_query_that_comes_later_begins_with_what_comes_then(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    fleet.device("t1").push([row("t1", 1)])
    query = fleet.submit(SQL.format(0), "q")
    fleet.device("t2").push([row("t2", 2)])
    fleet.process_available()
    assert [r["n"] for r in query.results().collect()] == [2]


def test_another_process_goes_on_and_another_text_stays_so(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    fleet.submit(SQL.format(1), "q")
    fleet.device("t1").push([row("t1", n) for n in range(3)])
    fleet.process_available()
    fleet.stop()
    fleet = open_fleet()
    assert fleet.execution(QueryId("q")).scattered
    fleet.alter("q", SQL.format(5))
    fleet.replace("q", "SELECT train, n + 1 AS n, ts FROM trains WHERE n >= 5")
    fleet.device("t2").push([row("t2", n) for n in range(8)])
    fleet.close_sources()
    fleet.process_available()
    assert fleet.execution(QueryId("q")).scattered
    assert sorted(r["n"] for r in fleet.query("q").results().collect()) == [1, 2, 6, 7, 8]  # (two of the first text)


def test_where_a_place_was_asked_for_results_leave_there(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    query = fleet.submit(SQL.format(0), "q", sink="cloud")
    fleet.device("t1").push([row("t1", 1)])
    fleet.close_sources()
    fleet.process_available()
    assert "at-cloud" in regions_that_run(fleet, "q")
    assert query.verdict().equal
    fleet.move({f"q/{len(fleet.execution(QueryId('q')).shape.plan.operators) - 1}": "east"})
    assert "at-east" in regions_that_run(fleet, "q")


def test_such_a_sink_cannot_be_placed_by_hand(open_fleet: Callable[..., Fleet]) -> None:
    fleet = fleet_of(open_fleet)
    fleet.submit(SQL.format(0), "q")
    sink = len(fleet.execution(QueryId("q")).shape.plan.operators) - 1
    before = fleet.deployment.epoch
    with pytest.raises(DeploymentError, match=r"leave wherever.*sink='SITE'"):
        fleet.move({f"q/{sink}": "east"})
    assert fleet.deployment.epoch == before
