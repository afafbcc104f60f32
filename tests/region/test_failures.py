"""A query that cannot be run is stopped, with the reason; the others of its shape and region go on, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from py4j.protocol import Py4JNetworkError

from godwit.api.fleet import Fleet
from godwit.errors import EngineGoneError
from godwit.ids import QueryId
from godwit.observe.status import QueryStatus
from godwit.region.failures import blame
from tests.region.world import Action, Attach, Crash, Push, Step, Submit, Withdraw, World

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]
#: coaches are 0, 1 and 2; element 0 of an array is an error in Spark, ANSI or not
PLAIN = "SELECT train, element_at(array(7, 8, 9, 10), coach + {0}) AS x, ts FROM passengers WHERE boarded > {1}"
COUNTED = """SELECT train, sum(element_at(array(7, 8, 9, 10), coach + {0})) AS x, window.end AS until
             FROM passengers WHERE boarded > {1} GROUP BY train, window(ts, '10 seconds')"""
RUN = "godwit.region.step.Step.run"
TEMPLATES = {"stateless": PLAIN, "windowed": COUNTED}


def status(world: World, query: str) -> QueryStatus:
    (found,) = (q for q in world.fleet.status().queries if q.name == query)
    return found


def end(world: World, *queries: str) -> list[str]:
    """What is wrong with these; the oracle could not answer the one that fails, either."""
    world.fleet.close_sources()
    world.fleet.process_available()
    return [str(verdict) for name in queries if not (verdict := world.fleet.query(name).verdict()).equal]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_others_go_on(open_fleet: Callable[..., Fleet], kind: str) -> None:
    """All three are of one shape; one of them fails, in two regions, and stays stopped over a crash."""
    sql = TEMPLATES[kind]
    world = World(open_fleet, {"good": sql.format(1, 3), "bad": sql.format(0, 3), "other": sql.format(2, 5)})
    assert len({q.shape.key for q in world.fleet.deployment.queries.values()}) == 1
    world.play([*ROWS[:8], Step((0, 1, 2)), Attach(0, "east"), *ROWS[8:12], Crash("committed")])
    world.fleet.process_available()
    failed = status(world, "bad").failed
    assert failed is not None
    assert "INVALID_INDEX_OF_ZERO" in failed
    assert "withdraw it" in failed
    assert (status(world, "good").failed, status(world, "other").failed) == (None, None)
    told = [story for story in world.fleet.history.read() if story["outcome"] == "failed"]
    assert [(story["queries"], story["reason"]) for story in told] == [(["bad"], failed)], "once, over a crash"
    world.play(ROWS[12:])
    assert end(world, "good", "other") == []
    assert status(world, "bad").failed == failed
    assert world.fleet.status().failures == {}


def test_the_way_back_is_to_submit_it_again(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"good": PLAIN.format(1, 3), "bad": PLAIN.format(0, 3)})
    world.play([*ROWS[:8], Step((0, 1, 2, 3))])
    world.fleet.process_available()
    assert status(world, "bad").failed is not None
    world.play([Withdraw("bad"), Submit("bad", PLAIN.format(2, 3)), *ROWS[8:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert status(world, "bad").failed is None
    assert world.fleet.query("bad").results().count() > 0


def test_a_query_that_is_alone_in_its_shape(open_fleet: Callable[..., Fleet]) -> None:
    world = World(
        open_fleet, {"bad": PLAIN.format(0, 3), "other": "SELECT train, ts FROM passengers WHERE boarded > 3"}
    )
    world.play(ROWS)
    assert end(world, "other") == []
    assert status(world, "bad").failed is not None


def test_what_is_no_querys_fault_stops_the_runner(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("godwit.region.failures.NOBODYS", ("INVALID_INDEX_OF_ZERO",))
    world = World(open_fleet, {"bad": PLAIN.format(0, 3)})
    with pytest.raises(Exception, match="INVALID_INDEX_OF_ZERO"):
        world.play([*ROWS[:8], Step((0, 1, 2, 3))])


@pytest.mark.parametrize("fault", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_no_query_is_blamed_for_the_end_of_java(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    world = World(open_fleet, {"good": PLAIN.format(1, 3)})
    world.play(ROWS[:8])
    with monkeypatch.context() as java:
        java.setattr(RUN, lambda _: raised(fault))
        with pytest.raises(EngineGoneError, match="nothing that was committed is lost"):
            world.play([Step((0, 1, 2, 3))])
    world.play(ROWS[8:])
    assert end(world, "good") == []
    assert status(world, "good").failed is None


def raised(fault: Exception) -> None:
    raise fault


def names(*texts: str) -> list[QueryId]:
    return [QueryId(text) for text in texts]


@pytest.mark.parametrize("bad", [(), ("a",), ("e",), ("b", "d"), ("a", "b", "c", "d", "e")])
def test_whoever_fails_alone_is_found(bad: Sequence[str]) -> None:
    tried = []

    def fails(some: Sequence[QueryId]) -> str | None:
        tried.append(some)
        return "why" if set(some) & set(bad) else None

    assert blame(names(*"abcde"), fails) == dict.fromkeys(bad, "why")
    assert all(tried)


def test_nobody_is_blamed_for_what_only_two_do_together() -> None:
    assert blame(names(*"abcd"), lambda some: "why" if {"a", "d"} <= set(some) else None) == {}
