"""`alter`: one epoch, the old results under the name, the new ones as the oracle has them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.ids import QueryId
from godwit.maintenance.housekeeping import Retention
from godwit.model.codec import decode
from godwit.model.topology import Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SQL = "SELECT v, ts FROM readings WHERE v > {}"
WINDOWS = "SELECT count(*) AS n, window.end AS until FROM readings WHERE v > {} GROUP BY window(ts, '10 seconds')"


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
        fleet.stream("readings", "v int, ts timestamp", site="west", ahead=None)
        yield fleet


def _push(fleet: Fleet, *readings: tuple[int, int]) -> None:
    fleet.push("readings", [{"v": v, "ts": START + dt.timedelta(seconds=s)} for s, v in readings])
    fleet.process_available()


def test_parameters_change_in_one_epoch_and_old_results_stay_under_the_name(fleet: Fleet) -> None:
    query = fleet.submit(SQL.format(1), "q")
    _push(fleet, (1, 1), (2, 2), (3, 5))
    before = int(fleet.deployment.epoch)
    altered = fleet.alter(query.id, SQL.format(4))
    assert int(fleet.deployment.epoch) == before + 1
    delta: Any = decode(next(record for at, _, record in fleet.executor.log.after(before, fleet.deployment))["delta"])
    assert sorted(parameters.parameters if parameters else () for parameters in delta.queries.values()) == [(), ("4",)]
    _push(fleet, (4, 2), (5, 6))
    assert sorted(row["v"] for row in altered.results().collect()) == [2, 5, 6]
    assert altered.verdict().equal
    altered.stop()
    assert sorted(row["v"] for row in fleet.results(QueryId("q")).collect()) == [2, 5, 6]


def test_the_same_parameters_change_nothing(fleet: Fleet) -> None:
    query = fleet.submit(SQL.format(1), "q")
    before = fleet.deployment.epoch
    fleet.alter(query.id, SQL.format(1))
    assert fleet.deployment.epoch == before


def test_a_window_begins_anew_with_the_new_parameters(fleet: Fleet) -> None:
    query = fleet.submit(WINDOWS.format(1), "q")
    _push(fleet, (1, 2), (2, 2), (11, 2), (12, 2))
    altered = fleet.alter(query.id, WINDOWS.format(0))
    _push(fleet, (13, 1), (14, 1), (25, 1))
    fleet.close_sources()
    fleet.process_available()
    assert sorted(row["n"] for row in altered.results().collect()) == [1, 2, 2]
    assert altered.verdict().equal
