"""Equal sub-plans are executed once, and every reader is answered from its own beginning: the oracle decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.engine.lazy_frame import Frame
from godwit.engine.size_policy import SizePolicy
from godwit.ids import QueryId, RegionId, SiteId
from godwit.model.changes import LinkAdded, SiteAdded, SiteRemoved
from godwit.model.plan import CLASS
from godwit.model.topology import Link, Site
from godwit.observe.status import QueryStatus
from godwit.region.readers import Readers
from godwit.region.runner import MOMENTS
from godwit.storage.overlays import rows_by_query
from tests.region.test_oracle_properties import SLOW, Story, check
from tests.region.world import (
    QUERIES,
    SITES,
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
    sized,
)

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 3) for train in range(4)]
STRICTER = QUERIES["hopping"].replace("> 1", "> 3")
OVER_JOIN = """SELECT a.train, count(*) AS n, window.end AS until FROM passengers a JOIN passengers b
               ON a.coach = b.coach AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 2 SECONDS
               WHERE a.line = 'S41' AND b.line = 'S42' GROUP BY a.train, window(a.ts, '7 seconds')"""
WITHOUT_PARTNER = """SELECT a.train, a.ts, b.train AS other FROM passengers a LEFT JOIN passengers b
    ON a.coach = b.coach AND b.ts BETWEEN a.ts - INTERVAL 3 SECONDS AND a.ts + INTERVAL 2 SECONDS AND b.train > a.train
    AND b.boarded > a.boarded + 3"""
#: name -> (the first query, one that has a sub-plan in common with it)
ALIKE = {
    "window": (QUERIES["tumbling"], QUERIES["tumbling"]),
    "window, another HAVING": (QUERIES["hopping"], STRICTER),
    "join": (QUERIES["join"], QUERIES["join"]),
    "left join": (WITHOUT_PARTNER, WITHOUT_PARTNER),
    "window over a join": (OVER_JOIN, OVER_JOIN),
    "window over a window": (QUERIES["nested"], QUERIES["nested"]),
    "window over a union": (QUERIES["union"], QUERIES["union"]),
    "filter": (QUERIES["filter"], QUERIES["filter"]),
}


def wrong(world: World) -> list[str]:
    return [str(v) for v in world.finish() if not v.equal]


def status(world: World, query: str) -> QueryStatus:
    return next(q for q in world.fleet.status().queries if q.name == query)


def state_rows(fleet: Fleet) -> dict[str, int]:
    """Rows of state by query, over all regions."""
    found: dict[str, int] = {}
    for runner in fleet.pool.runners.values():
        for state in runner.memory.states.values():
            for segment in state.live:
                for query, rows in rows_by_query(segment).items():
                    found[query] = found.get(query, 0) + rows
    return found


def in_the_middle(first: str, later: str) -> list[Action]:
    """Two readers come while windows are open; operators and a train move, the first leaves, a crash, the second."""
    script = [*ROWS[:6], Step((0, 1, 2)), Submit("second", later), *ROWS[6:14], Step((0, 1)), Move("first", "west")]
    script += [*ROWS[14:18], Step((2, 0, 1)), Submit("third", later), *ROWS[18:26], Attach(0, "east"), Step((0, 1, 2))]
    return [*script, Withdraw("first"), *ROWS[26:32], Crash("staged"), *ROWS[32:40], Withdraw("second"), *ROWS[40:]]


@pytest.mark.parametrize("name", ALIKE)
def test_readers_are_answered_from_their_own_beginning(open_fleet: Callable[..., Fleet], name: str) -> None:
    first, later = ALIKE[name]
    world = World(open_fleet, {"first": first})
    world.play(in_the_middle(first, later))
    taps = world.fleet.deployment.queries[QueryId("third")].taps
    assert set(taps.values()) == {"first"}  # withdrawn, and going on for others
    assert wrong(world) == []
    assert world.fleet.queries == ["third"]
    assert world.fleet.query("third").results().count() > 0
    assert set(state_rows(world.fleet)) <= {"first", "third"}
    world.fleet.withdraw(QueryId("third"))
    assert not world.fleet.deployment.queries
    answered = world.fleet.results(QueryId("first")).count()  # and stays readable
    assert answered > 0 or name == "window over a window"


@pytest.mark.parametrize("name", ["window, another HAVING", "join"])
def test_all_readers_at_the_end(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Nobody leaves: the first one's answers are not changed by who reads along; rows are few, or many."""
    first, later = ALIKE[name]
    world = World(open_fleet, {"first": first})
    world.play([action for action in in_the_middle(first, later) if not isinstance(action, Withdraw)])
    assert wrong(world) == []
    assert all(world.fleet.query(name).results().count() for name in ("first", "second", "third"))


@pytest.mark.parametrize("name", ["window over a join"])
def test_large_batches_and_many_who_are_tapped(open_fleet: Callable[..., Fleet], name: str) -> None:
    """The ways that rows take when they are many, and when those who are tapped are."""
    first, later = ALIKE[name]
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2, case_queries=0)), {"first": first})
    world.play([action for action in in_the_middle(first, later) if not isinstance(action, Withdraw)])
    assert wrong(world) == []


def test_what_is_shared_is_executed_once(open_fleet: Callable[..., Fleet]) -> None:
    """Three readers keep the state of one; nobody who is not tapped has a class."""
    alone = World(open_fleet, {"first": QUERIES["tumbling"]})
    alone.play(ROWS[:12])
    alone.fleet.process_available()
    assert set(state_rows(alone.fleet)) == {"first"}
    schemas = [s.schema for r in alone.fleet.pool.runners.values() for st in r.memory.states.values() for s in st.live]
    assert not any(CLASS in schema for schema in schemas)
    instances = len(alone.fleet.plane.planner.plan.instances)
    for name in ("second", "third"):
        alone.fleet.submit(QUERIES["tumbling"], name)
    # Above the window each has its own.
    assert len(alone.fleet.plane.planner.plan.instances) == instances + 2 * 2
    alone.play([*ROWS[12:36], Step((0, 1, 2, 0, 1, 2))])
    alone.fleet.process_available()
    assert set(state_rows(alone.fleet)) == {"first"}
    assert wrong(alone) == []


def test_one_class_is_left_when_all_open_windows_began_after_the_newest_reader(
    open_fleet: Callable[..., Fleet],
) -> None:
    world = World(open_fleet, {"first": QUERIES["hopping"]})
    world.play([*ROWS[:8], Step((0, 1, 2)), Submit("second", STRICTER), *ROWS[8:]])
    world.fleet.process_available()
    live = [s for r in world.fleet.pool.runners.values() for state in r.memory.states.values() for s in state.live]
    classes = {row for segment in live for table in segment.tables() for row in table[CLASS].to_pylist()}
    assert classes == {world.fleet.deployment.queries[QueryId("second")].begins}
    assert wrong(world) == []


def ignoring(self: Readers, frame: Frame) -> Frame:
    """A broken rule: all rows seem to have been taken in after everybody began."""
    return frame.selectExpr("*", f"{2**40}L AS {CLASS}") if self.classes else frame


@pytest.mark.parametrize("name", ["window", "join"])
def test_ignoring_the_class_is_caught(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Readers, "with_class", ignoring)
    first, later = ALIKE[name]
    world = World(open_fleet, {"first": first})
    script = [*ROWS[:6], Submit("second", later), *ROWS[6:14], Step((0, 1, 2)), *ROWS[14:16], Submit("third", later)]
    world.play([*script, *ROWS[16:]])
    found = wrong(world)
    assert [line.partition(":")[0] for line in found] == ["third"]


def test_people_are_told_what_is_shared_and_with_whom(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"first": QUERIES["hopping"], "second": STRICTER, "session": QUERIES["session"]})
    world.fleet.submit(QUERIES["session"], "other")
    assert "-- shared: operators 0, 1, 2 run once for first, second" in world.fleet.query("second").explain()
    alone = world.fleet.query("other").explain()
    assert "-- shared" not in alone
    assert "-- not shared: operator 2, which session has as well: its state is not kept by beginning" in alone
    assert status(world, "first").shared_by == ("second",)
    assert status(world, "second").shared_by == ("first",)
    assert status(world, "other").shared_by == ()


def test_rows_that_are_too_late_are_shown_to_those_who_had_begun(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"first": QUERIES["tumbling"], "second": QUERIES["tumbling"]})
    world.play([push for push in ROWS if isinstance(push, Push) and push.second > 12])
    world.fleet.process_available()
    world.play([Push(0, 1, 3), Push(1, 1, 3)])
    world.fleet.process_available()
    world.fleet.submit(QUERIES["tumbling"], "third")
    late = {name: world.fleet.query(name).late().count() for name in world.fleet.queries}
    assert late["first"] == late["second"] > late["third"] == 0


def test_a_name_is_free_again_while_others_tap_what_ran_under_it(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"first": QUERIES["tumbling"], "second": QUERIES["tumbling"]})
    world.play([*ROWS[:12], Withdraw("first"), *ROWS[12:16], Submit("first", QUERIES["tumbling"]), *ROWS[16:]])
    assert world.fleet.queries == ["first", "second"]
    assert wrong(world) == []
    assert status(world, "second").shared_by == (world.fleet.execution(QueryId("first")).id,)


def test_readers_that_feed_streams_and_readers_that_are_altered(open_fleet: Callable[..., Fleet]) -> None:
    """What a reader puts into a stream is in time for those who read that; who is altered begins again."""
    busy = """INSERT INTO {} SELECT train, line, sum(boarded) AS people, window.end AS at
              FROM passengers GROUP BY train, line, window(ts, '5 seconds')"""
    lines = "SELECT line, max(people) AS most, window.end AS until FROM {} GROUP BY line, window(at, '10 seconds')"
    world = World(open_fleet, {"one": busy.format("busy"), "first": QUERIES["hopping"]})
    world.play([*ROWS[:8], Step((0, 1, 2)), Submit("two", busy.format("crowded")), Submit("three", STRICTER)])
    world.fleet.submit(lines.format("crowded"), "lines")
    assert set(world.fleet.deployment.queries[QueryId("two")].taps.values()) == {"one"}
    world.play([*ROWS[8:20], Step((0, 1, 2)), Move("one", "west", only=0), *ROWS[20:24], Step((0, 1))])
    world.fleet.alter(QueryId("first"), STRICTER)
    world.play([*ROWS[24:32], Crash("committed"), *ROWS[32:]])
    assert wrong(world) == []
    assert world.fleet.query("lines").results().count() > 0
    assert status(world, "three").shared_by == (world.fleet.execution(QueryId("first")).id,)


def test_what_is_shared_is_sent_where_other_state_is_made_again(open_fleet: Callable[..., Fleet]) -> None:
    opened = lambda **options: open_fleet(state="recreate-best", **options)  # noqa: E731
    world = World(opened, {"first": QUERIES["tumbling"], "alone": QUERIES["union"]})
    world.play([a for a in in_the_middle("", QUERIES["tumbling"]) if not isinstance(a, Withdraw)])
    assert wrong(world) == []


def test_one_query_that_fails_does_not_stop_who_shares_with_it(open_fleet: Callable[..., Fleet]) -> None:
    """The first fails above the window that the second taps; then it is withdrawn."""
    sql = """SELECT train, element_at(array(7, 8, 9, 10), int(min(coach)) + {}) AS x, window.end AS until
             FROM passengers WHERE boarded > 3 GROUP BY train, window(ts, '4 seconds')"""
    world = World(open_fleet, {"first": sql.format(0), "second": sql.format(1)})
    assert set(world.fleet.deployment.queries[QueryId("second")].taps.values()) == {"first"}
    world.play([*ROWS[:16], Step((0, 1, 2)), *ROWS[16:24], Crash("committed"), *ROWS[24:40]])
    world.fleet.process_available()
    assert status(world, "second").failed is None
    assert status(world, "first").failed is not None
    world.play([Withdraw("first"), *ROWS[40:]])
    assert wrong(world) == []
    assert world.fleet.query("second").results().count() > 0


def test_one_query_without_a_place_does_not_stop_who_shares_with_it(open_fleet: Callable[..., Fleet]) -> None:
    """The site of the first one's sink leaves: it waits for it, the other does not."""
    world = World(open_fleet, {})
    fleet = world.fleet
    fleet.change([SiteAdded(Site(SiteId("far"), RegionId("far"))), LinkAdded(Link(SiteId("far"), SiteId("cloud")))])
    fleet.submit(QUERIES["tumbling"], "first", sink="far")
    fleet.submit(QUERIES["tumbling"], "second", sink="cloud")
    world.play([*ROWS[:16], Step((0, 1, 2))])
    fleet.process_available()
    fleet.change([SiteRemoved(SiteId("far"))])
    assert set(fleet.parked) == {"first"}
    before = fleet.query("second").results().count()
    world.play(ROWS[16:40])
    fleet.process_available()
    assert fleet.query("second").results().count() > before
    fleet.change([SiteAdded(Site(SiteId("far"), RegionId("far"))), LinkAdded(Link(SiteId("far"), SiteId("cloud")))])
    assert not fleet.parked
    world.play(ROWS[40:])
    assert wrong(world) == []


# --- whatever happens

POOL = {
    "window": "SELECT train, count(*) AS n, sum(boarded) AS s, window.end AS until FROM passengers "
    "WHERE boarded > 2 GROUP BY train, window(ts, '4 seconds') HAVING count(*) > {}",
    "join": "SELECT a.train, b.train AS other, a.ts, b.boarded + {} AS more FROM passengers a JOIN passengers b "
    "ON a.coach = b.coach AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND WHERE a.boarded > 4",
}
TRAINS = 3


@st.composite
def sharing(draw: st.DrawFn) -> Story:
    """Queries of one kind come and go, at any moment; two literals above what they share."""
    sql = POOL[draw(st.sampled_from(sorted(POOL)))]
    script: list[Action] = []
    running, number = ["q0"], 0
    trains, sites = st.integers(0, TRAINS - 1), st.sampled_from(SITES)
    between = st.one_of(
        st.builds(Step, st.lists(st.integers(0, 8), min_size=1, max_size=3).map(tuple)),
        st.builds(Attach, trains, sites),
        st.builds(Detach, trains),
        st.builds(Move, st.just("q0"), sites),
        st.builds(Crash, st.sampled_from(MOMENTS)),
    )
    for second in range(0, 16, 2):
        script += [Push(train, float(second), draw(st.integers(1, 4))) for train in range(TRAINS)]
        script += draw(st.lists(between, max_size=2))
        if draw(st.booleans()):
            number += 1
            running.append(f"q{number}")
            script.append(Submit(f"q{number}", sql.format(draw(st.integers(0, 1)))))
        elif len(running) > 1 and draw(st.booleans()):
            script.append(Withdraw(running.pop(draw(st.integers(0, len(running) - 1)))))
    return {"q0": sql.format(0)}, script


@settings(max_examples=8, deadline=None, suppress_health_check=[*SLOW, HealthCheck.filter_too_much], derandomize=True)
@given(story=sharing())
def test_whoever_comes_and_goes(spark: SparkSession, story: Story) -> None:
    note("readers come and go")
    check(spark, story)
