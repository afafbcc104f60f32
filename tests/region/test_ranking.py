"""Ranks and distinct rows are what the batch says: within final windows, and among all rows so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from tests.region.test_running import ROWS, Ticking, different, moved, restless
from tests.region.world import Push, Step, World, sized

FINAL = {
    "best_trains": """SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY until ORDER BY n DESC) AS place
                      FROM (SELECT train, count(*) AS n, sum(boarded) AS people, window.end AS until
                            FROM passengers GROUP BY train, window(ts, '5 seconds'))) WHERE place <= 2""",
    "hottest": """SELECT coach, n, until, max(n) OVER (PARTITION BY since, until) AS most
                  FROM (SELECT coach, count(*) AS n, window.start AS since, window.end AS until
                        FROM passengers GROUP BY coach, window(ts, '10 seconds', '5 seconds'))
                  QUALIFY rank() OVER (PARTITION BY since, until ORDER BY n DESC) = 1""",
    "distinct": "SELECT /*+ keep('forever') */ DISTINCT train, coach FROM passengers WHERE boarded > 2",
    "lately": "SELECT /*+ keep('1 second') */ DISTINCT line, coach, boarded % 3 AS rest FROM passengers",
    "times": "SELECT DISTINCT line, ts FROM passengers",
}
NOW = {
    "latest": """SELECT /*+ keep('forever') */ train, coach, boarded, load, ts FROM (SELECT *, row_number()
                 OVER (PARTITION BY train, coach ORDER BY ts DESC) AS place FROM passengers) WHERE place <= 1""",
    "best": """SELECT /*+ keep('forever') */ line, boarded, load, ts,
                      row_number() OVER (PARTITION BY line ORDER BY boarded DESC, load) AS place
               FROM passengers WHERE alighted > 2 QUALIFY place <= 4""",
    "overall": """SELECT /*+ keep('forever') */ train, load, row_number() OVER (ORDER BY load) AS place
                  FROM passengers QUALIFY place < 4""",
}


@pytest.mark.parametrize("queries", [FINAL, NOW], ids=["final", "now"])
def test_ranks_are_what_the_batch_says(open_fleet: Callable[..., Fleet], queries: dict[str, str]) -> None:
    assert different(World(open_fleet, queries), restless(list(queries))) == []


def test_rows_that_the_order_leaves_equal(open_fleet: Callable[..., Fleet]) -> None:
    queries = {name: {**FINAL, **NOW}[name] for name in ("best_trains", "latest", "best")}
    script = [*ROWS[:8], Step((0, 1, 2)), *moved(list(queries), "west"), *ROWS[8:14], Step((0, 1, 2)), *ROWS[14:]]
    assert different(Ticking(open_fleet, queries), script) == []


def test_large_batches_of_ranks(open_fleet: Callable[..., Fleet]) -> None:
    queries = {name: {**FINAL, **NOW}[name] for name in ("best_trains", "best")}
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), queries)
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), *moved(list(queries), "west"), *ROWS[8:12], Step((0, 1, 2))]
    assert different(world, [*script, *ROWS[12:]]) == []


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["adhoc-query", "recreate-average"])
def test_ranks_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    queries = {**FINAL, **NOW}
    world = World(partial(open_fleet, state=strategy), queries)
    assert different(world, restless(list(queries))) == []


def test_the_best_rows_stay_few_and_a_change_is_told_once(open_fleet: Callable[..., Fleet]) -> None:
    sql = """SELECT /*+ keep('forever') */ train, boarded, ts,
                    row_number() OVER (PARTITION BY train ORDER BY boarded DESC) AS place
             FROM passengers QUALIFY place <= 2"""
    world = World(open_fleet, {"q": sql}, trains=2)
    for second in range(0, 80, 2):
        world.play([Push(0, second, 1), Push(1, second, 1)])
        world.fleet.process_available()
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) < 20
    told = world.fleet.query("q").changes().toPandas()
    assert len(told) < 40, "rows that stay in their place are not told again"
    for _, of_place in told.groupby(["train", "place"]):
        versions = [(v["at"], v["n"]) for v in of_place["__version"]]
        assert len(set(versions)) == len(versions)
    assert [str(v) for v in world.finish() if not v.equal] == []
