"""Queries that share operators get another plan: at one line, every result of each of them once, and they go on
sharing; or one of them changes alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, DeploymentError
from godwit.ids import DeviceId, QueryId, SiteId
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Link, Site, Topology
from godwit.replan.box import JoinBox
from tests.api.test_replan import COUNTED, JOINS, _push

ABOVE = f"SELECT a.v AS x, b.v AS y, c.v AS z {JOINS} WHERE a.v + b.v + c.v > {{}}"
HAVING = f"{COUNTED} HAVING count(*) > {{}}"
STRATEGIES = ["moving-state", "background"]
NEW_ORDER = "(b JOIN c) JOIN a"


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
        for stream in "abc":
            fleet.stream(stream, "k int, v int, ts timestamp", site="west", ahead=None)
        yield fleet


def _order(fleet: Fleet, name: str) -> str:
    runs = fleet.execution(QueryId(name))
    return str(JoinBox.of(runs.shape.plan, fleet.deployment.streams).tree.canonical)


def _end_well(fleet: Fleet, *names: str) -> None:
    fleet.close_sources()
    fleet.process_available()
    for name in names:
        found = fleet.query(name).verdict()
        assert found.equal, str(found)
        assert found.got > 2


def _leaders(fleet: Fleet, name: str) -> set[str]:
    return {*fleet.execution(QueryId(name)).taps.values()}


@pytest.mark.parametrize(
    ("strategy", "sql"),
    [
        ("moving-state", HAVING),
        ("background", ABOVE),
        *(pytest.param(*one, marks=pytest.mark.full) for one in [("moving-state", ABOVE), ("background", HAVING)]),
    ],
    ids=["moving-state, a window", "background, rows", "moving-state, rows", "background, a window"],
)
def test_all_that_share_the_joins_change_together_and_go_on_sharing(fleet: Fleet, strategy: str, sql: str) -> None:
    random_ = random.Random(7)
    fleet.submit(sql.format(1), "q")
    _push(fleet, random_, range(6))
    fleet.submit(sql.format(2 if sql == HAVING else 1), "r")
    assert _leaders(fleet, "r") == {"q"}
    _push(fleet, random_, range(6, 12))
    fleet.replan("r", order=NEW_ORDER, strategy=strategy)
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 30))
    assert len(fleet.deployment.queries) == 2  # nothing is left of the old versions
    assert [_order(fleet, name) for name in "qr"] == ["a JOIN (b JOIN c)"] * 2
    assert _leaders(fleet, "r") == {fleet.execution(QueryId("q")).id}
    plans = fleet._operations.plans
    assert not {*plans._asked, *plans._lines, *plans._found, *plans._delivered}
    assert not list(fleet.store.disk.names("plans/q")) + list(fleet.store.disk.names("plans/r"))
    fleet.submit(sql.format(1), "s")  # who comes later has the order that is written in its text
    _push(fleet, random_, range(30, 42))
    _end_well(fleet, "q", "r", "s")


@pytest.mark.parametrize("changes", ["q", "r"], ids=["who executes", "who taps"])
@pytest.mark.parametrize("strategy", ["background", pytest.param("moving-state", marks=pytest.mark.full)])
def test_one_changes_alone_and_the_others_keep_their_plan_and_their_rows(
    fleet: Fleet, strategy: str, changes: str
) -> None:
    """`s` taps with `r`: of the two that are left, the older one executes."""
    random_ = random.Random(8)
    fleet.submit(HAVING.format(1), "q")
    _push(fleet, random_, range(6))
    for name, over in (("r", 2), ("s", 1)):
        fleet.submit(HAVING.format(over), name)
        _push(fleet, random_, range(6, 9) if name == "r" else range(9, 12))
    fleet.replan(changes, order=NEW_ORDER, strategy=strategy, alone=True)
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 42))
    assert len(fleet.deployment.queries) == 3
    others = [name for name in "qrs" if name != changes]
    assert _order(fleet, changes) == "a JOIN (b JOIN c)"
    assert not _leaders(fleet, changes)
    assert {_order(fleet, name) for name in others} == {"a JOIN b JOIN c"}
    assert _leaders(fleet, others[1]) == {fleet.execution(QueryId(others[0])).id}
    _end_well(fleet, "q", "r", "s")


PAIRS = (
    "SELECT a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL 4 SECONDS AND a.ts + "
    "INTERVAL 3 SECONDS"
)


@pytest.mark.parametrize("order", ["(b JOIN c) JOIN a", "c JOIN (b JOIN a)"], ids=["has no such join", "has it"])
@pytest.mark.parametrize("strategy", ["background", pytest.param("moving-state", marks=pytest.mark.full)])
def test_a_query_of_another_shape_that_reads_a_cut_notices_nothing(fleet: Fleet, strategy: str, order: str) -> None:
    random_ = random.Random(9)
    sql = f"SELECT a.v AS x, b.v AS y, c.v AS z {JOINS}"
    fleet.submit(sql, "q")
    if order.startswith("c"):  # from the order that has no such join, back
        _push(fleet, random_, range(3))
    _push(fleet, random_, range(3, 6))
    fleet.submit(PAIRS, "p")
    (part,) = fleet.execution(QueryId("p")).parts
    _push(fleet, random_, range(6, 12))
    fleet.replan("q", order=order, strategy=strategy)
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 42))
    (now,) = fleet.execution(QueryId("p")).parts
    assert now in fleet.deployment.queries
    assert (now == part) == (order.startswith("c"))  # (the same order: nothing changes)
    _end_well(fleet, "q", "p")
    fleet.withdraw(QueryId("p"))
    assert {*fleet.deployment.queries} == {fleet.execution(QueryId("q")).id}


@pytest.mark.parametrize("changes", ["q", "r"], ids=["who executes", "who taps"])
def test_one_gets_another_text_and_the_others_go_on(fleet: Fleet, changes: str) -> None:
    random_ = random.Random(13)
    fleet.submit(HAVING.format(1), "q")
    _push(fleet, random_, range(6))
    fleet.submit(HAVING.format(2), "r")
    assert _leaders(fleet, "r") == {"q"}
    _push(fleet, random_, range(6, 12))
    told = fleet.replace(changes, HAVING.format(0))
    assert "goes on:" in told
    assert "begins again" not in told
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 42))
    assert len(fleet.deployment.queries) == 2
    assert _leaders(fleet, "r") == {fleet.execution(QueryId("q")).id}  # what they have in common they share again
    _end_well(fleet, "q", "r")


def test_a_query_whose_cut_is_read_gets_another_text(fleet: Fleet) -> None:
    random_ = random.Random(14)
    fleet.submit(f"SELECT a.v AS x, b.v AS y, c.v AS z {JOINS}", "q")
    _push(fleet, random_, range(6))
    fleet.submit(PAIRS, "p")
    _push(fleet, random_, range(6, 12))
    with pytest.raises(DeploymentError, match=r"it reads rows that .* makes for it"):
        fleet.replace("p", PAIRS + " AND a.v > 1")
    fleet.replace("q", f"SELECT a.v AS x, c.v AS z {JOINS} AND a.v > 1")
    _push(fleet, random_, range(12, 42))
    assert len(fleet.execution(QueryId("p")).parts) == 1
    _end_well(fleet, "q", "p")


def test_who_was_withdrawn_and_goes_on_unseen_ends_with_the_change(fleet: Fleet) -> None:
    random_ = random.Random(10)
    gone = fleet.submit(HAVING.format(1), "q")
    _push(fleet, random_, range(6))
    fleet.submit(HAVING.format(1), "r")
    _push(fleet, random_, range(6, 12))
    fleet.withdraw(QueryId("q"))
    ended = gone.results().count()
    _push(fleet, random_, range(12, 15))
    fleet.replan("r", order=NEW_ORDER, strategy="background")
    _push(fleet, random_, range(15, 30))
    assert {*fleet.deployment.queries} == {fleet.execution(QueryId("r")).id}
    _push(fleet, random_, range(30, 42))
    _end_well(fleet, "r")
    assert gone.results().count() == ended


@pytest.mark.parametrize("strategy", ["background", pytest.param("moving-state", marks=pytest.mark.full)])
def test_over_regions_while_devices_move(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """They have only the join of a and b in common; under the new plan each needs rows of c that are its own."""
    random_ = random.Random(11)
    sites = [Site("west", region="west"), Site("east", region="east"), Site("cloud", region="cloud", kind="cloud")]  # type: ignore[arg-type]
    links = [Link("west", "cloud"), Link("east", "cloud")]  # type: ignore[arg-type]
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of(sites, links))
        for stream, site in zip("abc", ("west", "east", "west"), strict=True):
            fleet.stream(stream, "k int, v int, ts timestamp", site=site, ahead=None)
        fleet.submit(ABOVE.format(1), "q")
        _push(fleet, random_, range(6))
        fleet.submit(ABOVE.format(2), "r")
        assert _leaders(fleet, "r") == {"q"}
        _push(fleet, random_, range(6, 12))
        fleet.replan("q", order=NEW_ORDER, strategy=strategy)
        fleet.move_device(DeviceId("a"), SiteId("east"))
        _push(fleet, random_, range(12, 20))
        fleet.replan("r", order="a JOIN b JOIN c", strategy=strategy, alone=True)
        fleet.move_device(DeviceId("b"), SiteId("west"))
        _push(fleet, random_, range(20, 42))
        assert len(fleet.deployment.queries) == 2
        assert not _leaders(fleet, "r")
        assert (_order(fleet, "q"), _order(fleet, "r")) == ("a JOIN (b JOIN c)", "a JOIN b JOIN c")
        _end_well(fleet, "q", "r")


def test_what_is_not_possible_is_refused_with_what_is(fleet: Fleet) -> None:
    random_ = random.Random(12)
    fleet.submit(ABOVE.format(1), "q")
    _push(fleet, random_, range(3))
    fleet.submit(ABOVE.format(2), "r")
    _push(fleet, random_, range(3, 6))
    before = fleet.deployment.epoch
    with pytest.raises(ConfigError, match="use 'moving-state' or 'background'"):
        fleet.replan("q", order=NEW_ORDER, strategy="parallel-track")
    assert fleet.deployment.epoch == before
    fleet.replan("q", order=NEW_ORDER, strategy="background")
    with pytest.raises(DeploymentError, match="under way"):
        fleet.replan("r", order=NEW_ORDER)
    _push(fleet, random_, range(6, 42))
    _end_well(fleet, "q", "r")


def test_one_that_has_parted_can_run_both_plans_and_share_the_answers_by_age(fleet: Fleet) -> None:
    """What `parallel-track` is refused with helps: rows of its states, which had classes for others, are old ones."""
    random_ = random.Random(13)
    fleet.submit(ABOVE.format(1), "q")
    _push(fleet, random_, range(3))
    fleet.submit(ABOVE.format(1), "r")
    _push(fleet, random_, range(3, 9))
    with pytest.raises(ConfigError, match="alone=True"):
        fleet.replan("q", order=NEW_ORDER, strategy="parallel-track", alone=True)
    fleet.replan("q", order=NEW_ORDER, strategy="background", alone=True)
    _push(fleet, random_, range(9, 12))
    assert len(fleet.deployment.queries) == 2
    fleet.replan("q", order="(a JOIN c) JOIN b", strategy="parallel-track")
    _push(fleet, random_, range(12, 42))
    assert len(fleet.deployment.queries) == 2
    assert _order(fleet, "q") != _order(fleet, "r")
    _end_well(fleet, "q", "r")


@pytest.mark.parametrize(
    "strategy", ["background", *(pytest.param(s, marks=pytest.mark.full) for s in ("moving-state", "parallel-track"))]
)
def test_keys_that_are_divided_over_regions(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """Each region leaves what it has of them; afterwards they are in one place, and can be divided again."""
    random_ = random.Random(13)
    sites = [Site("west", region="west"), Site("east", region="east"), Site("cloud", region="cloud", kind="cloud")]  # type: ignore[arg-type]
    links = [Link("west", "cloud"), Link("east", "cloud")]  # type: ignore[arg-type]
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of(sites, links))
        for stream, site in zip("abc", ("west", "east", "west"), strict=True):
            fleet.stream(stream, "k int, v int, ts timestamp", site=site, ahead=None)
        fleet.submit(COUNTED, "q")
        _push(fleet, random_, range(6))
        operators = [i for i, op in enumerate(fleet.execution(QueryId("q")).shape.plan.operators) if op.stateful]
        for operator, to in zip(operators, ("east", "west", "east"), strict=True):
            fleet.migrate("q", keys=[1], to=to, operator=operator)
            _push(fleet, random_, range(6 + operator, 7 + operator))
            fleet.process_available()
        runs = fleet.execution(QueryId("q"))
        assert [len(fleet.deployment.owners(runs, operator)) for operator in operators] == [2, 2, 2]
        _push(fleet, random_, range(14, 17))
        fleet.replan("q", order=NEW_ORDER, strategy=strategy)
        with pytest.raises(DeploymentError, match="under way"):
            fleet.replan("q", order="a JOIN b JOIN c")
        fleet.move_device(DeviceId("a"), SiteId("east"))
        _push(fleet, random_, range(17, 45))
        (runs,) = fleet.deployment.queries.values()
        assert _order(fleet, "q") == "a JOIN (b JOIN c)"
        assert not fleet.deployment.key_routes
        divided = next(i for i, op in enumerate(runs.shape.plan.operators) if op.stateful)
        fleet.migrate("q", keys=[1], to="west", operator=divided)
        _push(fleet, random_, range(45, 50))
        assert len(fleet.deployment.key_routes) == 1
        _end_well(fleet, "q")
