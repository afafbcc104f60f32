"""Windows in all their forms, and rows made of rows, are what the batch says: under moves, crashes and disorder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from tests.region.test_running import ROWS, different, moved, restless
from tests.region.world import Move, Push, Step, World, sized

HOPS = {
    "minute": """SELECT line, count(*) AS n, sum(boarded) AS people, avg(load) AS mean, count(DISTINCT train) AS trains,
                        window.start AS since, window.end AS until
                 FROM passengers GROUP BY line, window(ts, '6 seconds', '1 second')""",
    "uneven": """SELECT train, max(boarded) AS most, median(load) AS mid, window.end AS until
                 FROM passengers WHERE coach > 0 GROUP BY train, window(ts, '10 seconds', '4 seconds', '1 second')""",
    "hottest": """SELECT a.coach, a.num, a.until
                  FROM (SELECT coach, count(*) AS num, window_end AS until
                        FROM TABLE(HOP(TABLE passengers, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
                        GROUP BY coach, window_start, window_end) a
                  JOIN (SELECT max(num) AS most, until
                        FROM (SELECT count(*) AS num, window_end AS until
                              FROM TABLE(HOP(TABLE passengers, DESCRIPTOR(ts), INTERVAL '2' SECOND,
                                             INTERVAL '10' SECOND))
                              GROUP BY coach, window_start, window_end)
                        GROUP BY until) b
                  ON a.until = b.until AND a.num >= b.most""",
}
CUTS = {
    "offset": """SELECT train, count(*) AS n, window.start AS since
                 FROM passengers GROUP BY train, window(ts, '10 seconds', '10 seconds', '3 seconds')""",
    "days": """SELECT to_date(from_utc_timestamp(ts, 'Europe/Berlin') - INTERVAL 4 HOURS) AS day, line, count(*) AS n
               FROM passengers GROUP BY day, line""",
    "minutes": """SELECT minute, max(n) AS most FROM (SELECT train, date_trunc('MINUTE', ts) AS minute, count(*) AS n
                  FROM passengers GROUP BY train, minute) GROUP BY minute""",
    "statistics": """SELECT line, skewness(load) AS skew, kurtosis(load) AS kurt, corr(boarded, load) AS r,
                            regr_slope(boarded, alighted) AS slope, covar_samp(boarded, load) AS c, window.end AS until
                     FROM passengers GROUP BY line, window(ts, '10 seconds')""",
    "items": """SELECT train, item, count(*) AS n, window.end AS until
                FROM passengers LATERAL VIEW explode(array(coach, boarded, NULL)) x AS item WHERE item > 1
                GROUP BY train, item, window(ts, '5 seconds')""",
}
GATHERED = {
    "lists": """SELECT line, collect_list(boarded) AS counts, listagg(DISTINCT train, ',') AS trains,
                       mode(coach) AS usual, percentile_approx(load, array(0.1, 0.9)) AS spread, window.end AS until
                FROM passengers GROUP BY line, window(ts, '10 seconds', '5 seconds')""",
    "sessions": """SELECT train, array_agg(coach ORDER BY boarded DESC) AS coaches, any_value(line) AS line,
                          session_window.end AS until
                   FROM passengers GROUP BY train, session_window(ts, '1 second')""",
    "rollup": """SELECT line, train, sum(boarded) AS n, collect_set(coach) AS coaches, grouping_id() AS level,
                        window.end AS until
                 FROM passengers GROUP BY ROLLUP(line, train), window(ts, '5 seconds')
                 HAVING n > 3 OR grouping(train) = 1""",
    "best": """SELECT train, count(*) AS n, window.end AS until FROM passengers GROUP BY train, window(ts, '5 seconds')
               ORDER BY n DESC, train LIMIT 2 BY until""",
    "seen": """SELECT /*+ keep('forever') */ line, collect_set(coach) AS coaches, mode(boarded) AS usual
               FROM passengers GROUP BY line""",
    "recent": """SELECT train, collect_list(boarded) OVER (PARTITION BY train ORDER BY ts ROWS 2 PRECEDING) AS last, ts
                 FROM passengers""",
}


@pytest.mark.parametrize("queries", [HOPS, CUTS, GATHERED], ids=["hops", "cuts", "gathered"])
def test_windows_are_what_the_batch_says(open_fleet: Callable[..., Fleet], queries: dict[str, str]) -> None:
    assert different(World(open_fleet, queries), restless(list(queries))) == []


def test_large_batches_of_slices(open_fleet: Callable[..., Fleet]) -> None:
    """Neither state nor rows are few: slices become partials of windows by a job of Spark's."""
    names = ["minute", "uneven"]
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: HOPS[name] for name in names})
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), *moved(names, "west"), *ROWS[8:12], Step((0, 1, 2)), *ROWS[12:]]
    assert different(world, script) == []


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["adhoc-query", "recreate-average"])
def test_slices_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    names = ["minute", "uneven"]
    world = World(partial(open_fleet, state=strategy), {name: HOPS[name] for name in names})
    assert different(world, restless(names)) == []


def test_a_row_is_kept_once_in_however_many_windows_it_is(open_fleet: Callable[..., Fleet]) -> None:
    sql = "SELECT train, count(*) AS n, window.end FROM passengers GROUP BY train, window(ts, '1 minute', '1 second')"
    world = World(open_fleet, {"q": sql}, trains=1)
    world.play([Push(0, second, 1) for second in range(0, 10, 2)])
    world.fleet.process_available()
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) <= 5
    world.play([Move("q", "west")])
    assert [str(v) for v in world.finish() if not v.equal] == []
