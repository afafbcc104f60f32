"""The plan optimiser on Spark: selectivities swap, it measures that, changes the order, and every result comes once."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology
from godwit.replan.box import JoinBox
from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord
from godwit.replan.optimiser import ReplanPolicy

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NEAR = "BETWEEN b.ts - INTERVAL 3 SECONDS AND b.ts + INTERVAL 3 SECONDS"
JOINS = f"FROM a JOIN b ON a.k = b.k AND a.ts {NEAR} JOIN c ON c.j = b.j AND c.ts {NEAR}"
SQL = f"SELECT a.v AS x, b.v AS y, c.v AS z {JOINS}"
#: whatever a change costs: at thirty rows per second none is worth it
POLICY = ReplanPolicy(margin=0.0, least_rows=10, pause_s=2.0)


@pytest.fixture
def draw() -> random.Random:
    return random.Random(4)


def _opened(spark: SparkSession, folder: Path, **options: object) -> Fleet:
    fleet = Fleet(folder, spark, retention=Retention(keep=True), **options)  # type: ignore[arg-type]
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    for stream in "abc":
        fleet.stream(stream, "k int, j int, v int, ts timestamp", site="west", ahead=None)
    return fleet


def _second(fleet: Fleet, draw: random.Random, second: int, keys: int, others: int) -> None:
    """Ten rows per stream; of `keys` values of k and `others` of j."""
    at = START + dt.timedelta(seconds=second)
    for stream in "abc":
        rows = [
            {"k": draw.randrange(keys), "j": draw.randrange(others), "v": draw.randrange(9), "ts": at}
            for _ in range(10)
        ]
        fleet.push(stream, rows)
    fleet.process_available()


def _order(fleet: Fleet) -> str:
    return str(JoinBox.of(fleet.execution(fleet.query("q").id).shape.plan, fleet.deployment.streams).tree.canonical)


def test_the_order_follows_the_load(spark: SparkSession, tmp_path: Path, draw: random.Random) -> None:
    with _opened(spark, tmp_path, replan=POLICY) as fleet:
        query = fleet.submit(SQL, "q")
        for second in range(8):  # many pairs of a and b, few of b and c
            _second(fleet, draw, second, 2, 50)
            fleet.replanner.look(float(second))
        fleet.process_available()
        assert _order(fleet) == "a JOIN (b JOIN c)"
        load = fleet.replanner.load(query.id)
        assert load is not None
        assert load.rates["a"] == pytest.approx(10, rel=0.3)
        assert load.sigma["a", "b"] == pytest.approx(1 / 2, rel=0.5)
        assert load.sigma["b", "c"] == pytest.approx(1 / 50, rel=0.6)
        assert "forecast:" in fleet.replan("q", order="(a JOIN b) JOIN c", dry_run=True)
        for second in range(8, 20):
            _second(fleet, draw, second, 50, 2)
            fleet.replanner.look(float(second))
        fleet.process_available()
        assert _order(fleet) == "a JOIN b JOIN c"
        stories = [story for story in fleet.history.read() if story["cause"].startswith("plan optimiser")]
        decided = [story["cause"] for story in stories if story["outcome"] == "committed"]
        assert len(decided) == 2
        assert "a JOIN (b JOIN c) would take" in decided[0]
        changed = [PlanChangeRecord.from_json(told) for told in fleet.store.get_document(PLAN_CHANGES) or ()]
        assert all(one.forecast and "forecast" in one.text() for one in changed)  # and what it was beside it
        (shown,) = fleet.status().queries
        assert sum(shown.taken.values()) > 100
        fleet.close_sources()
        fleet.process_available()
        found = query.verdict()
        assert found.equal, str(found)
        assert found.got > 10


def test_it_is_off_unless_asked_for(spark: SparkSession, tmp_path: Path, draw: random.Random) -> None:
    with _opened(spark, tmp_path) as fleet:
        fleet.submit(SQL, "q")
        for second in range(4):
            _second(fleet, draw, second, 2, 50)
            assert fleet.replanner.look(float(second)) == ()
        assert _order(fleet) == "a JOIN b JOIN c"
