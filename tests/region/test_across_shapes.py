"""Queries of different shapes that have a join or a window in common execute it once: the oracle decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.ids import QueryId, RegionId, SiteId
from godwit.model.changes import LinkAdded, SiteAdded, SiteRemoved
from godwit.model.plan import Aggregate, Join
from godwit.model.topology import Link, Site
from godwit.region.runner import MOMENTS
from tests.region.test_oracle_properties import SLOW, Story, check
from tests.region.test_taps import ROWS, in_the_middle, state_rows, status, wrong
from tests.region.world import SITES, Action, Attach, Crash, Detach, Move, Push, Step, Submit, Withdraw, World

JOIN = """FROM passengers {a} JOIN passengers {b}
          ON {a}.coach = {b}.coach AND {a}.ts BETWEEN {b}.ts - INTERVAL 1 SECOND AND {b}.ts + INTERVAL 2 SECONDS
          WHERE {a}.line = 'S41' AND {b}.line = 'S42'"""
PAIRS = f"SELECT a.train, b.train AS other, a.ts, b.ts AS met {JOIN.format(a='a', b='b')}"
COUNTED = f"""SELECT x.train, count(*) AS n, max(y.ts) AS last, window.end AS until {JOIN.format(a="x", b="y")}
              GROUP BY x.train, window(x.ts, '7 seconds')"""
WINDOW = """SELECT {select} FROM passengers {p} WHERE {p}.boarded > 2
            GROUP BY {p}.train, window({p}.ts, '10 seconds', '5 seconds') {having}"""
SUMS = WINDOW.format(p="a", select="a.train, sum(a.boarded) AS s, window.end AS until", having="")
OTHER = WINDOW.format(
    p="b", select="window.start AS since, sum(b.boarded) / 2 AS half, b.train AS t", having="HAVING sum(b.boarded) > 9"
)
NESTED = f"""SELECT t, max(half) AS most, window.end AS until FROM ({OTHER.replace("HAVING sum(b.boarded) > 9", "")})
             GROUP BY t, window(since, '20 seconds')"""
WITH_PARTNER = """FROM passengers {a} LEFT SEMI JOIN passengers {b} ON {a}.coach = {b}.coach AND {b}.train > {a}.train
    AND {b}.ts BETWEEN {a}.ts - INTERVAL 4 SECONDS AND {a}.ts + INTERVAL 4 SECONDS AND {b}.boarded > {a}.boarded + 1"""
FOUND = f"SELECT a.train, a.ts, a.boarded {WITH_PARTNER.format(a='a', b='b')}"
HOW_MANY = f"""SELECT x.train, count(*) AS n, window.end AS until {WITH_PARTNER.format(a="x", b="y")}
               GROUP BY x.train, window(x.ts, '6 seconds')"""
TWICE = """WITH w AS (SELECT train, sum(boarded) AS s, window.end AS e FROM passengers WHERE boarded > 2
                      GROUP BY train, window(ts, '10 seconds', '5 seconds'))
           SELECT p.train, p.s, q.s AS before, p.e FROM w p JOIN w q
           ON p.train = q.train AND p.e BETWEEN q.e + INTERVAL 5 SECONDS AND q.e + INTERVAL 5 SECONDS"""
#: name -> (the first query, one of another shape that has a sub-plan in common with it)
ALIKE = {
    "window, another HAVING and projection": (SUMS, OTHER),
    "window below a window": (SUMS, NESTED),
    "window, twice in the later one": (SUMS, TWICE),
    "join below a window": (PAIRS, COUNTED),
    "semi join below a window": (FOUND, HOW_MANY),
}


def executing(fleet: Fleet, kind: type) -> set[str]:
    """The shapes that have an operator of a kind."""
    shapes = fleet.deployment.shapes().items()
    return {key for key, shape in shapes if any(isinstance(o, kind) for o in shape.plan.operators)}


@pytest.mark.parametrize("name", ALIKE)
def test_readers_are_answered_from_their_own_beginning(open_fleet: Callable[..., Fleet], name: str) -> None:
    first, later = ALIKE[name]
    world = World(open_fleet, {"first": first})
    world.play(in_the_middle(first, later))
    (part,) = world.fleet.deployment.queries[QueryId("third")].parts
    assert set(world.fleet.deployment.queries[part].taps.values()) == {"first"}  # withdrawn, and going on for others
    assert wrong(world) == []
    assert world.fleet.queries == ["third"]
    assert world.fleet.query("third").results().count() > 0
    assert set(state_rows(world.fleet)) <= {"first", "third"}
    world.fleet.withdraw(QueryId("third"))
    assert not world.fleet.deployment.queries
    assert not [device for device in world.fleet.plane.topology.devices if device.startswith("query:")]


@pytest.mark.parametrize("name", ["window, another HAVING and projection", "join below a window"])
def test_all_readers_at_the_end(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Nobody leaves: the first one's answers are not changed by who reads along; two readers have one shape."""
    first, later = ALIKE[name]
    world = World(open_fleet, {"first": first})
    world.play([action for action in in_the_middle(first, later) if not isinstance(action, Withdraw)])
    queries = world.fleet.deployment.queries
    assert queries[QueryId("second")].shape.key == queries[QueryId("third")].shape.key
    assert len(executing(world.fleet, Join if "join" in name else Aggregate)) == 1
    assert "runs once for first" in world.fleet.query("second").explain()
    assert status(world, "first").shared_by == ("second", "third")
    assert status(world, "second").shared_by == ("first", "third")
    assert wrong(world) == []
    assert all(world.fleet.query(name).results().count() for name in ("first", "second", "third"))


def test_who_shares_nothing_is_not_split(open_fleet: Callable[..., Fleet]) -> None:
    """Another literal below the window, another band: nothing in common."""
    world = World(open_fleet, {"first": SUMS, "pairs": PAIRS})
    world.fleet.submit(OTHER.replace("boarded > 2", "boarded > 3"), "second")
    world.fleet.submit(COUNTED.replace("2 SECONDS", "3 SECONDS"), "third")
    assert not any(query.parts or query.taps for query in world.fleet.deployment.queries.values())


def test_what_a_query_has_twice_runs_once(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"twice": TWICE})
    world.play([*ROWS[:12], Step((0, 1, 2)), Attach(0, "east"), *ROWS[12:24], Move("twice", "west"), *ROWS[24:]])
    (part,) = world.fleet.deployment.queries[QueryId("twice")].parts
    assert set(state_rows(world.fleet)) <= {part, "twice"}
    assert wrong(world) == []
    assert world.fleet.query("twice").results().count() > 0


def test_rows_wait_while_the_place_where_they_leave_is_away(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {})
    fleet = world.fleet
    far = [SiteAdded(Site(SiteId("far"), RegionId("far"))), LinkAdded(Link(SiteId("far"), SiteId("cloud")))]
    fleet.submit(SUMS, "first")
    fleet.change(far)
    fleet.plane.planner.default_root = lambda: "far"  # type: ignore[method-assign]
    fleet.submit(OTHER, "second")
    del fleet.plane.planner.default_root  # type: ignore[method-assign]
    world.play([*ROWS[:16], Step((0, 1, 2))])
    fleet.process_available()
    fleet.change([SiteRemoved(SiteId("far"))])
    (part,) = fleet.deployment.queries[QueryId("second")].parts
    assert part in fleet.parked
    world.play(ROWS[16:32])
    fleet.process_available()
    assert fleet.query("first").results().count() > 0
    fleet.change(far)
    assert not fleet.parked
    world.play(ROWS[32:])
    assert wrong(world) == []
    assert fleet.query("second").results().count() > 0


# --- whatever happens


@st.composite
def sharing(draw: st.DrawFn) -> Story:
    """Queries of two shapes come and go, at any moment."""
    pool = ALIKE[draw(st.sampled_from(sorted(ALIKE)))]
    script: list[Action] = []
    running, number = ["q0"], 0
    trains, sites = st.integers(0, 2), st.sampled_from(SITES)
    between = st.one_of(
        st.builds(Step, st.lists(st.integers(0, 8), min_size=1, max_size=3).map(tuple)),
        st.builds(Attach, trains, sites),
        st.builds(Detach, trains),
        st.builds(Move, st.just("q0"), sites),
        st.builds(Crash, st.sampled_from(MOMENTS)),
    )
    for second in range(0, 24, 3):
        script += [Push(train, float(second), draw(st.integers(1, 4))) for train in range(3)]
        script += draw(st.lists(between, max_size=2))
        if draw(st.booleans()):
            number += 1
            running.append(f"q{number}")
            script.append(Submit(f"q{number}", draw(st.sampled_from(pool))))
        elif len(running) > 1 and draw(st.booleans()):
            script.append(Withdraw(running.pop(draw(st.integers(0, len(running) - 1)))))
    return {"q0": pool[0]}, script


@settings(max_examples=6, deadline=None, suppress_health_check=[*SLOW, HealthCheck.filter_too_much], derandomize=True)
@given(story=sharing())
def test_whoever_comes_and_goes(spark: SparkSession, story: Story) -> None:
    note("readers of other shapes come and go")
    check(spark, story)
