"""The oracle on written-down stories: what happened to the trains must not show in the results."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from godwit.errors import DeploymentError
from godwit.ids import QueryId, SiteId
from godwit.model.changes import LinkAdded, LinkRemoved
from godwit.model.topology import Link
from tests.region.world import (
    MODES,
    QUERIES,
    START,
    Action,
    Attach,
    Crash,
    Detach,
    Move,
    Push,
    Step,
    Submit,
    Withdraw,
    World,
    executed,
    sized,
    three_regions,
)
from tests.sampled import sampled

QUIET: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]


def verdicts(world: World, script: list[Action]) -> list[str]:
    world.play(script)
    return [str(v) for v in world.finish() if not v.equal]


@pytest.mark.parametrize("name", list(QUERIES))
def test_a_query_answers_what_the_batch_answers(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Rows in disorder, in several micro-batches, a train that changes region and one that is away for a while."""
    script = [*QUIET[:8], Step((0, 1, 2)), Attach(0, "east"), Detach(1), *QUIET[8:12], Step((2, 0, 1))]
    script += [Attach(1, "east"), *QUIET[12:]]
    assert verdicts(World(open_fleet, {name: QUERIES[name]}), script) == []


@pytest.mark.parametrize("moment", ["polled", "staged", "committed", "published", "cleaned"])
def test_a_crash_at_any_step_of_a_commit_loses_and_repeats_nothing(
    open_fleet: Callable[..., Fleet], moment: str
) -> None:
    queries = {name: QUERIES[name] for name in ("tumbling", "join")}
    script = [*QUIET[:8], Crash(moment), Move("join", "east"), *QUIET[8:14], Crash(moment), *QUIET[14:]]
    assert verdicts(World(open_fleet, queries), script) == []


def test_a_derived_stream_feeds_other_queries(open_fleet: Callable[..., Fleet]) -> None:
    """What one query inserts, two others read: one by windows over its time, one row by row. Its state moves midway."""
    queries = {
        "busy": """INSERT INTO busy SELECT train, line, sum(boarded) AS people, window.end AS at
                   FROM passengers GROUP BY train, line, window(ts, '5 seconds')""",
        "alarm": "SELECT train, people, at FROM busy WHERE people > 20",
        "lines": """SELECT line, max(people) AS most, window.end AS until
                    FROM busy GROUP BY line, window(at, '10 seconds')""",
    }
    script = [
        *QUIET[:8],
        Step((0, 1, 2, 3, 4)),
        Move("busy", "west", only=0),
        *QUIET[8:14],
        Crash("committed"),
        *QUIET[14:],
    ]
    assert verdicts(World(open_fleet, queries), script) == []


def test_queries_come_and_go_while_rows_flow(open_fleet: Callable[..., Fleet]) -> None:
    """A second query of a known shape answers from its first micro-batch on; an identical one shares the execution."""
    more = QUERIES["filter"].replace("> 6", "> 3")
    world = World(open_fleet, {"filter": QUERIES["filter"]})
    world.play([*QUIET[:6], Step((0, 1, 2)), Submit("more", more), *QUIET[6:12], Step((0, 1, 2))])
    twin = world.fleet.submit(more, "twin")
    first = world.fleet.query("filter")
    world.play([Withdraw("filter"), Withdraw("more"), *QUIET[12:]])
    assert len(world.fleet.deployment.shapes()) == 1
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert twin.verdict().equal
    assert twin.results().count() > first.results().count() > 0
    with pytest.raises(DeploymentError, match="there is no query 'more'; running: twin"):
        world.fleet.query("more")


def test_a_query_that_comes_when_a_device_has_said_goodbye_does_not_wait_for_it(
    open_fleet: Callable[..., Fleet],
) -> None:
    world = World(open_fleet, {"filter": QUERIES["filter"]})
    world.play([*QUIET[:4], Step((0, 1, 2))])
    world.handles[0].close()
    world.play([Submit("tumbling", QUERIES["tumbling"]), *[push for push in QUIET[4:] if push.train]])  # type: ignore[union-attr]
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert world.fleet.query("tumbling").results().count() > 0


def test_a_device_that_comes_back_before_its_rows_were_read(open_fleet: Callable[..., Fleet]) -> None:
    """West, east, west again, and nobody has looked in between: all three sessions end in their turn."""
    script = [Push(0, 0, 3), Attach(0, "east"), Push(0, 4, 3), Attach(0, "west"), *QUIET[4:]]
    assert verdicts(World(open_fleet, {"tumbling": QUERIES["tumbling"]}), script) == []


@pytest.mark.parametrize("name", sampled(["spread", "join", "session"], "spread", "session"))
def test_large_batches_answer_the_same(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Batches that are not small are written by Spark's tasks, and rows that hardly group are kept as they come."""
    spread = """SELECT load, count(*) AS n, count(coach) AS c, sum(boarded) AS s, avg(boarded) AS m, max(train) AS t,
                       bool_or(boarded > 3) AS any, count_if(alighted > 3) AS some, sum(load) AS l, window.end AS until
                FROM passengers GROUP BY load, window(ts, '10 seconds')"""
    queries = {**QUERIES, "spread": spread}
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: queries[name]})
    steps = Step((0, 1, 2, 0, 1, 2))
    script = [Attach(1, "west"), Attach(3, "west"), Move(name, "west"), *QUIET[:4], steps, *QUIET[4:8], steps]
    script += [*QUIET[8:10], steps]
    world.play(script)
    deferred = "select" in str([r.memory.states for r in world.fleet.pool.runners.values()])
    world.play([Move(name, "east"), *QUIET[10:14], steps, Crash("staged"), Attach(2, "east"), *QUIET[14:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert deferred == (name == "spread")


@pytest.mark.parametrize("mode", MODES)
def test_every_execution_mode_answers_the_same(
    spark: SparkSession, open_fleet: Callable[..., Fleet], mode: str
) -> None:
    """Two queries share a shape; one of them moves, with its state; a train hops; the process dies once."""
    other = QUERIES["tumbling"].replace("> 2", "> 4")
    queries = {"one": QUERIES["tumbling"], "other": other, "session": QUERIES["session"], "join": QUERIES["join"]}
    steps = Step((0, 1, 2, 3, 4, 5, 6, 7, 8))
    script = [*QUIET[:4], steps, Attach(1, "west"), *QUIET[4:8], Move("one", "west"), Move("join", "east"), steps]
    script += [Crash("staged"), *QUIET[8:12]]
    with executed(spark, mode) as sizes:
        assert verdicts(World(sized(open_fleet, sizes), queries), script) == []


def test_a_query_without_a_place_waits_and_goes_on_by_itself(open_fleet: Callable[..., Fleet]) -> None:
    """East is cut off: nothing comes out, in east or west, until the link is back; a new train joins meanwhile."""
    names = ("filter", "tumbling", "join")
    world = World(open_fleet, {name: QUERIES[name] for name in names})
    world.play([*QUIET[:8], Step((0, 1, 2, 3, 4, 5))])
    world.fleet.process_available()
    world.fleet.change([LinkRemoved(SiteId("east"), SiteId("cloud"))])
    assert set(world.fleet.parked) == set(names)
    world.fleet.process_available()
    before = {name: world.fleet.query(name).results().count() for name in names}
    world.play([*QUIET[8:12], Step((0, 1, 2)), Crash("committed"), Attach(0, "east"), *QUIET[12:16]])
    world.fleet.process_available()
    assert {name: world.fleet.query(name).results().count() for name in names} == before
    world.fleet.change([LinkAdded(Link(SiteId("east"), SiteId("cloud"), ms=5))])
    assert not world.fleet.parked
    world.play(QUIET[16:])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert all(world.fleet.query(name).results().count() > before[name] for name in names)


@pytest.mark.parametrize("gone", ["0", "parked", "waiting"])
def test_withdrawing_a_query_leaves_the_waiting_rows_of_others_alone(
    open_fleet: Callable[..., Fleet], gone: str
) -> None:
    """Both are of one shape, and without a place, when one is withdrawn; its name means nothing to the other's rows."""
    sql = "SELECT train, boarded + 1 AS more, ts FROM passengers WHERE boarded > {}"
    world = World(open_fleet, {"stays": sql.format(3), gone: sql.format(5)})
    world.fleet.change([LinkRemoved(SiteId("east"), SiteId("cloud"))])
    world.play(QUIET[:8])
    world.fleet.process_available()
    waiting = [room for runner in world.fleet.pool.runners.values() for room in runner.memory.rooms]
    assert {room.query for room in waiting} == {"stays", gone}
    world.fleet.withdraw(QueryId(gone))
    world.fleet.process_available()
    world.fleet.change([LinkAdded(Link(SiteId("east"), SiteId("cloud"), ms=5))])
    world.play(QUIET[8:])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert not any(runner.memory.rooms for runner in world.fleet.pool.runners.values())


def test_values_of_every_type_come_out_as_they_went_in(open_fleet: Callable[..., Fleet]) -> None:
    """A few rows do not take the same way to Spark as many; neither way may change a value."""
    fields = "a tinyint, b smallint, c bigint, d float, e decimal(12, 3), f date, g boolean, h binary, i array<int>"
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    fleet.stream("things", f"{fields}, j struct<x: int, y: string>, k map<string, int>, ts timestamp", site="west")
    query = fleet.submit("SELECT a, b, c, d, e, f, g, h, i, j, k, ts FROM things WHERE c > 0", "all")
    row = {
        "a": 1, "b": -2, "c": 2**62, "d": 0.5, "e": Decimal("123456789.125"), "f": dt.date(2026, 2, 28), "g": False,
        "h": b"\x00\xff", "i": [1, None], "j": {"x": None, "y": "ü"}, "k": [("one", 1)], "ts": START,
    }  # fmt: skip
    empty = dict.fromkeys(row) | {"c": 1, "ts": START + dt.timedelta(seconds=1)}
    fleet.push("things", [row, empty])
    fleet.process_available()
    rows = query.results().withColumn("ts", F.unix_seconds("ts")).collect()
    found = sorted((r.asDict(recursive=True) for r in rows), key=lambda r: r["c"])
    at = int(START.timestamp())
    assert found == [empty | {"ts": at + 1}, row | {"k": {"one": 1}, "h": bytearray(b"\x00\xff"), "ts": at}]


@pytest.mark.parametrize("others", [{}, {"other": "SELECT train, boarded AS n, ts FROM passengers WHERE boarded > 0"}])
@pytest.mark.parametrize("runner", [0, 1, 2])
def test_rows_under_way_for_a_query_that_was_withdrawn_go_no_further(open_fleet, others, runner):
    """Another query of the same shape must not lend them its parameters; and there may be no other one at all."""
    sql = "SELECT train, boarded AS n, ts FROM passengers WHERE boarded > 4"
    world = World(open_fleet, {"q": sql, **others}, trains=3)
    pushes = [Push(train, float(second), 4) for second in (0, 4, 8) for train in range(3)]
    world.play([*pushes, Attach(0, "cloud"), Step((runner,)), Withdraw("q")])
    assert all(verdict.equal for verdict in world.finish())
    assert world.fleet.results(QueryId("q")).where("n <= 4").count() == 0


@pytest.mark.parametrize("runner", [0, 1, 2])
def test_a_region_that_learns_late_of_a_query_and_of_a_hop_waits_for_the_rows_before_the_hop(open_fleet, runner):
    """The new region is read first: what it says of the device must not pass for what the old one still holds."""
    sql = """SELECT a.train, b.train AS other, a.ts FROM passengers a JOIN passengers b
             ON a.coach = b.coach AND a.ts BETWEEN b.ts AND b.ts WHERE a.boarded + b.alighted > 5"""
    world = World(open_fleet, {"q": sql}, trains=3)
    before, after = (
        [Push(train, second, 1) for second in times for train in range(3)] for times in ((0.0, 4.0), (8.0,))
    )
    assert verdicts(world, [*before, Attach(1, "west"), *after, Step((runner,))]) == []


@pytest.mark.parametrize("handed", [0, 20_000])
def test_state_of_one_of_two_queries_moves_whether_it_is_read_here_or_by_a_job(
    open_fleet: Callable[..., Fleet], handed: int
) -> None:
    """Up to so many rows leave without a job of Spark's; more of them, but still few, by one for all that go."""
    sql = """SELECT a.train, b.train AS other, a.ts FROM passengers a JOIN passengers b
             ON a.coach = b.coach AND a.ts BETWEEN b.ts - INTERVAL 9 SECONDS AND b.ts
             WHERE a.boarded + b.alighted > {}"""
    opened = sized(open_fleet, SizePolicy(handed_rows=handed))
    world = World(opened, {"one": sql.format(3), "other": sql.format(5)})
    steps = Step((0, 1, 2, 0, 1, 2))
    script = [Attach(1, "west"), *QUIET[:6], steps, Move("one", "west"), *QUIET[6:10], steps]
    world.play([*script, Move("one", "east"), Move("other", "west"), *QUIET[10:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    moved = [h for r in world.fleet.pool.runners.values() for _, c in r.commits.after(0) for h in c["handovers"]]
    assert any(h["parts"] for h in moved)
