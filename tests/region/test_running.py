"""Operators that answer without a window: the last row of every key, and every row's answer, are what the batch says.

Rows in disorder; instances move, move again before their state has come, and the process dies in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks.json_lines import JsonLinesSink
from godwit.engine.size_policy import SizePolicy
from tests.region.world import Action, Attach, Crash, Detach, Move, Push, Step, World, sized
from tests.sampled import sampled

TOTALS = {
    "totals": """SELECT /*+ keep('forever') */ train, count(*) AS n, sum(boarded) AS people, avg(load) AS mean,
                        max(ts) AS newest, count(DISTINCT coach) AS coaches, stddev(load) AS sd
                 FROM passengers GROUP BY train""",
    "having": """SELECT /*+ keep('forever') */ coach, line, avg(boarded) AS mean
                 FROM passengers WHERE alighted > 2 GROUP BY line, coach HAVING mean > 4.2 AND count(*) > 2""",
    "overall": "SELECT /*+ keep('forever') */ count(*) AS n, min(load) AS least FROM passengers WHERE boarded > 3",
    "kept": """SELECT /*+ keep('2 seconds') */ train, coach, count(*) AS n, sum(load) AS l
               FROM passengers GROUP BY 1, coach""",
    "kept_having": """SELECT /*+ keep('1500 milliseconds') */ line, upper(train) AS t, count(*) AS n
                      FROM passengers WHERE coach = 1 GROUP BY line, t HAVING n > 1""",
    "early": """SELECT /*+ emit('changes') */ line, count(*) AS n, avg(load) AS mean, window.end AS until
                FROM passengers GROUP BY line, window(ts, '10 seconds', '5 seconds') HAVING mean > 40""",
}
OVERS = {
    "last_rows": """SELECT train, coach, boarded, avg(boarded) OVER w AS mean, min(load) OVER w AS least,
                           count(*) OVER w AS n, lag(boarded, 2) OVER (PARTITION BY coach ORDER BY ts) AS earlier, ts
                    FROM passengers WHERE alighted > 1
                    WINDOW w AS (PARTITION BY coach ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW)""",
    "last_seconds": """SELECT train, load, max(load) OVER (PARTITION BY line ORDER BY ts RANGE INTERVAL 3 SECONDS
                              PRECEDING) AS most, stddev(load) OVER (PARTITION BY line ORDER BY ts
                              RANGE BETWEEN INTERVAL 3 SECONDS PRECEDING AND INTERVAL 1 SECOND PRECEDING) AS sd
                       FROM passengers""",
    "so_far": """SELECT train, row_number() OVER (PARTITION BY train ORDER BY ts) AS number, ts,
                        avg(boarded) OVER (PARTITION BY train ORDER BY ts) AS mean,
                        sum(load) OVER (PARTITION BY train ORDER BY ts ROWS UNBOUNDED PRECEDING) AS total,
                        max(coach) OVER (PARTITION BY train ORDER BY ts) AS most
                 FROM passengers""",
    "mixed": """SELECT line, ts, sum(boarded) OVER (PARTITION BY line ORDER BY ts RANGE BETWEEN INTERVAL 2 SECONDS
                       PRECEDING AND CURRENT ROW) AS lately, lag(ts) OVER (PARTITION BY line ORDER BY ts) AS before,
                       count(boarded) OVER (PARTITION BY line ORDER BY ts) AS n
                FROM passengers WHERE boarded > 2 QUALIFY n > 3""",
    "count": """SELECT train, avg(boarded) AS mean, count(DISTINCT coach) AS coaches, sum(load) AS load,
                       count_window.start AS since, count_window.end AS until
                FROM passengers GROUP BY train, count_window(ts, 5)""",
    "count_slide": """SELECT line, coach AS c, median(boarded) AS mid, max(struct(ts, load)).load AS latest
                      FROM passengers WHERE alighted > 1 GROUP BY line, c, count_window(ts, 4, 2) HAVING mid > 3""",
    "over_kept": """SELECT /*+ keep('1200 milliseconds') */ train,
                           row_number() OVER (PARTITION BY train ORDER BY ts) AS n,
                           sum(boarded) OVER (PARTITION BY train ORDER BY ts ROWS 2 PRECEDING) AS s,
                           max(load) OVER (PARTITION BY train ORDER BY ts) AS most,
                           lag(coach) OVER (PARTITION BY train ORDER BY ts) AS before FROM passengers""",
    "count_kept": """SELECT /*+ keep('1 second') */ line, coach, sum(load) AS load, count_window.end AS until
                     FROM passengers GROUP BY line, coach, count_window(ts, 3, 2)""",
    "next_rows": """SELECT train, coach, boarded, lead(boarded) OVER w AS next, lead(ts, 3) OVER w AS later, ts,
                           lag(boarded, 2, -1) OVER w AS earlier, lead(coach, 2, 99) OVER w AS third,
                           avg(load) OVER (PARTITION BY coach ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS m
                    FROM passengers WHERE alighted > 1 WINDOW w AS (PARTITION BY coach ORDER BY ts)""",
    "next_only": """SELECT train, ts,
                           unix_micros(lead(ts) OVER (PARTITION BY train ORDER BY ts)) - unix_micros(ts) AS gap
                    FROM passengers QUALIFY gap IS NULL OR gap > 300000""",
    "over_over": """SELECT line, window.end AS until, count(*) AS stops, max(gap) AS gap
                    FROM (SELECT line, ts, unix_micros(ts) - unix_micros(lag(ts) OVER (PARTITION BY train ORDER BY ts))
                                 AS gap FROM passengers)
                    WHERE gap > 300000 GROUP BY line, window(ts, '10 seconds')""",
}
ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]
#: rows of one train alone, with gaps: keys come to their end, and begin anew
GAPS: list[Action] = [Push(train, second, 2) for second in range(30, 90, 10) for train in range(4)]


def moved(names: list[str], site: str) -> list[Action]:
    return [Move(name, site) for name in names]


def restless(names: list[str]) -> list[Action]:
    """Instances move, and move again before their state has come; a train hops, one is away; a crash."""
    return [
        *ROWS[:6], Step((0, 1, 2)), *moved(names, "west"), *ROWS[6:10], Step((1, 0)), Attach(0, "east"), Detach(1),
        *moved(names, "east"), *ROWS[10:14], Step((2, 0)), *moved(names, "west"), *ROWS[14:16], Step((0, 1, 2)),
        Crash("staged"), Attach(1, "east"), *moved(names, "cloud"), *ROWS[16:], Crash("committed"), *GAPS,
    ]  # fmt: skip


def different(world: World, script: list[Action]) -> list[str]:
    world.play(script)
    return [str(v) for v in world.finish() if not v.equal]


@pytest.mark.parametrize("name", list(TOTALS))
def test_the_last_row_of_every_key_is_what_the_batch_says(open_fleet: Callable[..., Fleet], name: str) -> None:
    assert different(World(open_fleet, {name: TOTALS[name]}), restless([name])) == []


@pytest.mark.parametrize("name", list(OVERS))
def test_every_row_is_answered_as_the_batch_says(open_fleet: Callable[..., Fleet], name: str) -> None:
    assert different(World(open_fleet, {name: OVERS[name]}), restless([name])) == []


class Ticking(World):
    """Devices whose clocks have whole seconds: many rows have one time, and some are equal altogether."""

    def _rows(self, train: int, second: float, rows: int) -> list[dict[str, Any]]:
        made = super()._rows(train, second, rows)
        return [{**row, "ts": row["ts"].replace(microsecond=0), "load": 0.0} for row in made]


@pytest.mark.parametrize("name", sampled(["last_rows", "so_far", "mixed", "count_slide"], "mixed", "count_slide"))
def test_rows_of_one_time_have_one_order(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = Ticking(open_fleet, {name: OVERS[name].replace("max(struct(ts, load)).load", "max(load)")})
    script = [*ROWS[:8], Step((0, 1, 2)), Move(name, "west"), *ROWS[8:14], Step((0, 1, 2)), *ROWS[14:]]
    assert different(world, script) == []


@pytest.mark.parametrize("strategy", sampled(["adhoc-query", "recreate-average"], "recreate-average"))
def test_window_functions_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    names = ["last_rows", "last_seconds", "so_far", "count_slide"]
    world = World(partial(open_fleet, state=strategy), {name: OVERS[name] for name in names})
    assert different(world, restless(names)) == []


@pytest.mark.parametrize("name", sampled(["mixed", "so_far", "last_seconds"], "mixed"))
def test_large_batches_of_window_functions(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: OVERS[name]})
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), Move(name, "west"), *ROWS[8:12], Step((0, 1, 2)), *ROWS[12:]]
    assert different(world, script) == []


@pytest.mark.parametrize("strategy", sampled(["adhoc-query", "recreate-average"], "adhoc-query"))
def test_totals_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    names = ["totals", "having", "kept"]
    world = World(partial(open_fleet, state=strategy), {name: TOTALS[name] for name in names})
    assert different(world, restless(names)) == []


@pytest.mark.parametrize("name", sampled(["having", "kept"], "kept"))
def test_large_batches_of_totals(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Neither state nor rows are few: nothing is read here, everything by jobs of Spark's."""
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: TOTALS[name]})
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), Move(name, "west"), *ROWS[8:12], Step((0, 1, 2)), *ROWS[12:]]
    assert different(world, script) == []


def test_totals_stay_few_rows_and_tell_what_they_replace(open_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """Many micro-batches: compaction merges what they leave; a change is told once, and versions only grow."""
    sql = """SELECT /*+ keep('forever') */ train, avg(boarded) AS mean FROM passengers
             GROUP BY train HAVING mean > 4.5"""
    world = World(open_fleet, {"q": sql}, trains=2)
    delivery = world.fleet.query("q").write_to(JsonLinesSink(tmp_path / "changes.jsonl"))
    for second in range(0, 80, 2):
        world.play([Push(0, second, 1), Push(1, second, 1)])
        world.fleet.process_available()
    assert [str(v) for v in world.finish() if not v.equal] == []
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) < 60
    told = world.fleet.query("q").changes().toPandas().sort_values(["train", "__version"], key=_sortable)
    assert set(told.columns) == {"train", "mean", "__version", "__deleted", "__change"}
    for _, of_train in told.groupby("train"):
        gone = of_train["__deleted"].tolist()
        assert not gone[0]
        assert not any(a and b for a, b in pairwise(gone)), "a row that is gone is not taken twice"
    assert told["__deleted"].any()
    delivery.pump()
    lines = [json.loads(line) for line in (tmp_path / "changes.jsonl").read_text().splitlines()]
    assert len(lines) == len(told)
    assert all(set(line["__version"]) == {"at", "n"} for line in lines)


def test_windows_tell_what_they_are_before_they_close(open_fleet: Callable[..., Fleet]) -> None:
    sql = "SELECT train, count(*) AS n, window.start AS since FROM passengers GROUP BY train, window(ts, '1 hour')"
    world = World(open_fleet, {}, trains=1)
    world.fleet.submit(sql, "q", emit="changes")
    for second in range(0, 40, 4):
        world.play([Push(0, second, 2)])
        world.fleet.process_available()
    assert [row.n for row in world.fleet.query("q").results().collect()] == [20]
    assert sorted(row.n for row in world.fleet.query("q").changes().collect()) == list(range(2, 21, 2))
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert sum(s.rows for r in world.fleet.pool.runners.values() for s in r.memory.states.values()) == 0


def _sortable(column):  # type: ignore[no-untyped-def]
    return column.map(lambda v: (v["at"], v["n"]) if not isinstance(v, str) else v)


def test_what_window_functions_keep_stays_few(open_fleet: Callable[..., Fleet]) -> None:
    """However many micro-batches there were: the last rows of each key, and those that wait."""
    sql = """SELECT train, sum(boarded) OVER (PARTITION BY train ORDER BY ts ROWS 2 PRECEDING) AS s,
                    row_number() OVER (PARTITION BY train ORDER BY ts) AS n FROM passengers"""
    world = World(open_fleet, {"q": sql}, trains=2)
    for second in range(0, 80, 2):
        world.play([Push(0, second, 1), Push(1, second, 1)])
        world.fleet.process_available()
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) < 70
    assert [str(v) for v in world.finish() if not v.equal] == []
