"""Workloads make the same rows for the same seed; their queries give what a batch gives that is written otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.api.oracle import compare
from godwit.errors import ConfigError
from godwit.ids import QueryId
from godwit.sql import compile_query
from godwit.workloads import WORKLOADS, Settings, named
from tests.region.world import three_regions

SMALL = {
    "tm": Settings(seed=3, rate=20, seconds=30, sources=2, disorder=2),
    "nq5": Settings(seed=3, rate=12, seconds=40, sources=2, disorder=2),
    "nq6": Settings(seed=3, rate=100, seconds=30, sources=2, disorder=2),
    "nq7": Settings(seed=3, rate=20, seconds=40, sources=2, disorder=2),
    "nq8": Settings(seed=3, rate=100, seconds=30, sources=2, disorder=2),
    "lr-tn": Settings(seed=3, rate=4, seconds=60, sources=2, disorder=2),
    "lr-an": Settings(seed=3, rate=4, seconds=500, sources=2, disorder=2),
}
#: the same questions, asked in another way; ties of rank are no ties of ours: no two events have one time
OTHERWISE = {
    "tm": "SELECT vehicle, sum(speed) / count(speed) AS average FROM speeds GROUP BY vehicle "
    "HAVING sum(speed) > 50 * count(speed)",
    "nq5": """SELECT auction, bids, until FROM (
                SELECT auction, bids, until, rank() OVER (PARTITION BY until ORDER BY bids DESC) AS place FROM (
                  SELECT auction, count(*) AS bids, until FROM (
                    SELECT auction, explode(sequence(date_trunc('second', ts) + INTERVAL 1 SECOND,
                                                     date_trunc('second', ts) + INTERVAL 60 SECONDS,
                                                     INTERVAL 1 SECOND)) AS until FROM bid)
                  GROUP BY auction, until)) WHERE place = 1""",
    "nq6": """SELECT seller, avg(initial) AS price, max(ts) AS until FROM (
                SELECT *, floor((rank() OVER (PARTITION BY seller ORDER BY ts) - 1) / 10) AS lot FROM auction)
              GROUP BY seller, lot HAVING count(*) = 10""",
    "nq7": """SELECT auction, bidder, price, ts FROM (
                SELECT *, rank() OVER (PARTITION BY floor(unix_micros(ts) / 10000000) ORDER BY price DESC) AS place
                FROM bid) WHERE place = 1""",
    "nq8": """SELECT id, name, auction, came, sold FROM (
                SELECT person.id, name, auction.id AS auction, person.ts AS came, auction.ts AS sold
                FROM person, auction WHERE person.id = seller)
              WHERE unix_micros(sold) - unix_micros(came) BETWEEN 0 AND 3600000000""",
}


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_query_answers_while_a_source_hops(open_fleet: Callable[..., Fleet], name: str) -> None:
    workload, settings = WORKLOADS[name], SMALL[name]
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    workload.declare(fleet, settings, ["west", "east"])
    query = fleet.submit(workload.sql, name)
    for number, batch in enumerate(workload.batches(settings, every=settings.seconds / 4)):
        for stream, rows in batch.items():
            fleet.push(stream, rows)
        fleet.process_available()
        if number == 1:
            fleet.device("s0").attach("east")
            plan = fleet.deployment.queries[QueryId(name)].shape.plan
            fleet.move({f"{name}/{i}": "east" for i, o in enumerate(plan.operators) if o.stateful})
    fleet.close_sources()
    fleet.process_available()
    verdict = query.verdict()
    assert verdict.equal, str(verdict)
    assert verdict.got > 0
    if name in OTHERWISE:
        other = _batch(fleet, workload.tables(settings), OTHERWISE[name])
        told = compare(QueryId(name), other.toPandas(), query.results().toPandas())
        assert told.equal, str(told)


def _batch(fleet: Fleet, tables: dict[str, pa.Table], sql: str) -> Any:
    session = fleet.spark.newSession()
    for name, rows in tables.items():
        session.createDataFrame(rows).createOrReplaceTempView(name)
    return session.sql(sql)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_rows_follow_from_the_seed_alone(name: str) -> None:
    """However they are cut into batches, and in whatever order they arrive, they are the same."""
    workload, settings = WORKLOADS[name], SMALL[name]
    whole = workload.tables(settings)
    for every in (1.0, 7.0):
        batches = list(workload.batches(settings, every))
        for stream, rows in whole.items():
            again = pa.concat_tables([batch[stream] for batch in batches if stream in batch])
            assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, rows.to_pylist()))
    assert workload.tables(SMALL[name]) == whole
    assert workload.tables(Settings(seed=4, rate=20, seconds=10)) != workload.tables(Settings(rate=20, seconds=10))


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_query_compiles(name: str) -> None:
    workload = WORKLOADS[name]
    assert compile_query(workload.sql, {s.id: s for s in workload.streams}, QueryId(name)).shape.plan.operators


def test_nexmark_is_as_published() -> None:
    settings = Settings(rate=10_000, seconds=20)
    bid, auction, person = (
        named(w).tables(settings)[s] for w, s in (("nq5", "bid"), ("nq6", "auction"), ("nq8", "person"))
    )
    assert [t.num_rows / 200_000 for t in (person, auction, bid)] == [1 / 50, 3 / 50, 46 / 50]
    prices = bid["price"].to_numpy()
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    assert abs(np.log10(prices).mean() - 5) < 0.02
    hot = (bid["auction"].to_numpy() % 100 == 0).mean()
    assert 0.49 < hot < 0.53
    assert 0.74 < (auction["seller"].to_numpy() % 100 == 0).mean() < 0.78
    assert len(set(named("nq5").tables(Settings(rate=1000, keys=10))["bid"]["auction"].to_pylist())) == 10


def test_an_unknown_workload_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="there is no workload 'nq9'; there are lr-an, lr-tn, nq5"):
        named("nq9")
