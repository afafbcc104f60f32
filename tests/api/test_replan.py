"""A running query joins its streams in another order: every result once, as the oracle has them, by every strategy."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.engine.lazy_frame import LazyFrame, PlanKey
from godwit.engine.plan_cache import Java, java_of
from godwit.engine.size_policy import SizePolicy
from godwit.errors import ConfigError, DeploymentError
from godwit.ids import DeviceId, QueryId, SiteId
from godwit.maintenance.housekeeping import Retention
from godwit.model.changes import CapacityChanged
from godwit.model.plan import CLASS
from godwit.model.topology import Link, Site, Topology
from godwit.region import inherit, state, step
from godwit.region.rehearsal import rehearse
from godwit.replan.box import JoinBox
from godwit.replan.change_record import PLAN_CHANGES, PlanChangeRecord
from godwit.replan.filters import filters_above
from godwit.replan.wishes import PlanWish
from godwit.testing.collected import Collected

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NEAR = "BETWEEN {0}.ts - INTERVAL 4 SECONDS AND {0}.ts + INTERVAL 3 SECONDS"
JOINS = (
    f"FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} JOIN c ON b.k = c.k AND c.ts {NEAR.format('b')} "
    "AND c.v + a.v > 2"
)
PLAIN = f"SELECT a.v AS x, b.v AS y, c.v AS z, c.ts AS ts {JOINS} WHERE b.v > 0"
COUNTED = f"SELECT a.k AS k, count(*) AS n, sum(c.v) AS total {JOINS} GROUP BY a.k, window(c.ts, '5 seconds')"
STRATEGIES = ["moving-state", "background", "parallel-track", "pause-drain-resume"]


#: a and c are joined first
ALL_NEAR = (
    f"SELECT a.v AS x, b.v AS y, c.v AS z, a.ts AS ts FROM a JOIN c ON a.k = c.k AND c.ts {NEAR.format('a')} "
    f"JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')}"
)


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        _three_streams(fleet)
        yield fleet


def _three_streams(fleet: Fleet) -> None:
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    for stream in "abc":
        fleet.stream(stream, "k int, v int, ts timestamp", site="west", ahead=None)


def _push(fleet: Fleet, random: random.Random, seconds: range, process: bool = True, streams: str = "abc") -> None:
    """A few rows per stream and second, some of them alike."""
    for second in seconds:
        for stream in streams:
            rows = [
                {"k": random.randrange(2), "v": random.randrange(4), "ts": START + dt.timedelta(seconds=second)}
                for _ in range(2)
            ]
            fleet.push(stream, rows)
        if process and second % 3 == 0:
            fleet.process_available()


def _ends_well(fleet: Fleet, query: QueryHandle) -> None:
    fleet.close_sources()
    fleet.process_available()
    found = query.verdict()
    assert found.equal, str(found)
    assert found.got > 5


@pytest.mark.parametrize("sql", [PLAIN, COUNTED], ids=["rows", "an aggregate above"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_result_once(fleet: Fleet, strategy: str, sql: str) -> None:
    random_ = random.Random(7)
    query, delivered = fleet.submit(sql, "q"), Collected()
    query.write_to(delivered)
    _push(fleet, random_, range(12))
    fleet.replan("q", order="(b JOIN c) JOIN a", strategy=strategy, run_out=True)
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 45))
    (runs,) = fleet.deployment.queries.values()  # nothing is left of the old plan
    assert not list(fleet.store.disk.names(f"plans/{query.id}"))
    plans = fleet._operations.plans  # nor is anything remembered of it
    assert not {*plans._asked, *plans._lines, *plans._found, *plans._delivered}
    assert {shape for _, shape in plans._views} <= fleet.deployment.shapes().keys()
    assert str(JoinBox.of(runs.shape.plan, fleet.deployment.streams).tree.canonical) == "a JOIN (b JOIN c)"
    _ends_well(fleet, query)
    assert len(delivered.rows) == query.results().count()
    (told,) = [PlanChangeRecord.from_json(one) for one in fleet.store.get_document(PLAN_CHANGES)]
    assert (told.query, told.strategy) == ("q", strategy)
    assert told.length_s is not None
    steps = [p.phase for p in told.phases if p.phase in ("switch", "retire")]
    assert (steps[0], steps[-1]) == ("switch", "retire")
    assert steps.count("switch") == steps.count("retire")
    assert sum(p.rows for p in told.phases if p.phase == "left") > 0
    assert f"by {strategy}" in told.text()


@pytest.mark.parametrize(
    "strategy", ["background", *(pytest.param(s, marks=pytest.mark.full) for s in STRATEGIES if s != "background")]
)
def test_a_query_that_feeds_a_stream_changes_its_plan_and_who_reads_the_stream_notices_nothing(
    fleet: Fleet, strategy: str
) -> None:
    random_ = random.Random(3)
    feeds = fleet.submit(f"INSERT INTO met {PLAIN}", "q")
    reads = fleet.submit("SELECT x, count(*) AS n FROM met GROUP BY x, window(ts, '4 seconds')", "r")
    _push(fleet, random_, range(12))
    fleet.replan("q", order="(b JOIN c) JOIN a", strategy=strategy, run_out=True)
    _push(fleet, random_, range(12, 20), process=False)
    fleet.process_available()
    _push(fleet, random_, range(20, 45))
    assert len(fleet.deployment.queries) == 2
    before = reads.results().count()
    assert before > 5  # (its windows close while rows come, not only in the end)
    _ends_well(fleet, feeds)
    found = reads.verdict()
    assert found.equal, str(found)
    fleet.withdraw("q")
    assert "query:q" not in fleet.plane.topology.devices


FOUR = (
    f"SELECT a.v AS x, b.v AS y, c.v AS z, d.v AS u FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} "
    f"JOIN c ON b.k = c.k AND c.ts {NEAR.format('b')} JOIN d ON a.k = d.k AND d.ts {NEAR.format('a')}"
)


@pytest.mark.parametrize(
    "strategy",
    ["background", *(pytest.param(name, marks=pytest.mark.full) for name in STRATEGIES if name != "background")],
)
def test_over_regions_while_devices_move_and_twice_in_a_row(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """Streams come in at both edges, joins are in several regions, and what lies between is on its way."""
    random_ = random.Random(11)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "cloud", kind="cloud")]  # type: ignore[arg-type]
        fleet.topology.add(Topology.of(sites, [Link("west", "cloud"), Link("east", "cloud")]))  # type: ignore[arg-type]
        for stream, site in zip("abcd", ("west", "east", "west", "east"), strict=True):
            fleet.stream(stream, "k int, v int, ts timestamp", site=site, ahead=None)
        query = fleet.submit(FOUR, "q")
        joins = [i for i, op in enumerate(fleet.execution(query.id).shape.plan.operators) if op.stateful]
        fleet.move({f"q/{joins[0]}": "west"})
        _push(fleet, random_, range(10), streams="abcd")
        fleet.replan("q", order="(c JOIN b) JOIN (a JOIN d)", strategy=strategy, run_out=True)
        _push(fleet, random_, range(10, 14), process=False, streams="abcd")
        fleet.move_device(DeviceId("a"), SiteId("east"))
        _push(fleet, random_, range(14, 45), streams="abcd")
        fleet.replan("q", order="((d JOIN a) JOIN b) JOIN c", strategy=strategy, run_out=True)
        fleet.move_device(DeviceId("b"), SiteId("west"))
        _push(fleet, random_, range(45, 80), streams="abcd")
        assert len(fleet.deployment.queries) == 1
        _ends_well(fleet, query)


@pytest.mark.parametrize("strategy", ["parallel-track", pytest.param("background", marks=pytest.mark.full)])
def test_a_process_that_ends_in_the_middle_is_gone_on_with(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    random_ = random.Random(5)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
        for stream in "abc":
            fleet.stream(stream, "k int, v int, ts timestamp", site="west", ahead=None)
        fleet.submit(PLAIN, "q")
        _push(fleet, random_, range(12))
        fleet.replan("q", order="(b JOIN c) JOIN a", strategy=strategy, run_out=True)
        _push(fleet, random_, range(12, 15), process=False)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        _push(fleet, random_, range(15, 20))
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        _push(fleet, random_, range(20, 45))
        assert len(fleet.deployment.queries) == 1
        _ends_well(fleet, fleet.query("q"))


def test_without_the_rule_of_old_rows_results_come_twice(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "_old_rows", lambda frame: None if frame is None else frame.drop(CLASS))
    random_ = random.Random(7)
    query = fleet.submit(PLAIN, "q")
    _push(fleet, random_, range(12))
    fleet.replan("q", order="(b JOIN c) JOIN a", strategy="parallel-track")
    _push(fleet, random_, range(12, 45))
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().surplus


def test_a_version_has_the_plans_of_the_one_before(fleet: Fleet, spark: SparkSession) -> None:
    """Its name is no part of them: when a query goes back to an order that it had, Spark has nothing to plan."""
    random_, query = random.Random(7), fleet.submit(ALL_NEAR, "named")
    for number, order in enumerate(["(a JOIN b) JOIN c", "(a JOIN c) JOIN b", "(a JOIN b) JOIN c"]):
        _push(fleet, random_, range(9 * number, 9 * number + 9))
        fleet.replan("named", order=order, strategy="background")
    _push(fleet, random_, range(27, 36))
    plans = [key.what for _, key in java_of(spark)._plans if isinstance(key, PlanKey)]
    assert any("__query" in str(what) for what in plans)
    assert not [what for what in plans if "'named~" in str(what)]
    _ends_well(fleet, query)


def test_bad_orders_are_refused_and_nothing_changes(fleet: Fleet) -> None:
    fleet.submit(PLAIN, "q")
    before = fleet.deployment
    assert "computed:  b c" in fleet.replan("q", order="(b JOIN c) JOIN a", dry_run=True)
    for order in ("a JOIN b", "a JOIN b JOIN d", "(a JOIN b"):
        with pytest.raises(ConfigError, match="remedy"):
            fleet.replan("q", order=order)
    with pytest.raises(ConfigError, match="background"):
        fleet.replan("q", order="(b JOIN c) JOIN a", strategy="quickly")
    with pytest.raises(DeploymentError, match="there is no query 'p'"):
        fleet.replan("p", order="(b JOIN c) JOIN a")
    fleet.replan("q", order="c JOIN (b JOIN a)")  # the order it has
    assert fleet.deployment == before


def test_partial_aggregation_is_switched_off_and_on(spark: SparkSession, tmp_path: Path) -> None:
    """Rows are combined at the edges or in the cloud; the window goes on with what it has."""
    random_ = random.Random(3)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        sites = [Site("west", "west"), Site("cloud", "cloud", kind="cloud")]  # type: ignore[arg-type]
        fleet.topology.add(Topology.of(sites, [Link("west", "cloud")]))  # type: ignore[arg-type]
        fleet.stream("a", "k int, v int, ts timestamp", site="west", ahead=None)
        query = fleet.submit("SELECT k, sum(v) AS t, avg(v) AS m FROM a GROUP BY k, window(ts, '10 seconds')", "q")
        fleet.move({f"q/{i}": "cloud" for i in (2, 3, 4)})
        _push(fleet, random_, range(12), streams="a")
        assert "no partial aggregation" in fleet.replan("q", partial=False, dry_run=True)
        fleet.replan("q", partial=False)
        _push(fleet, random_, range(12, 24), streams="a")
        assert _receiver(fleet) == 1, "rows travel as they are"
        fleet.replan("q", partial=True)
        _push(fleet, random_, range(24, 36), streams="a")
        assert _receiver(fleet) == 2, "partial aggregates travel"
        with pytest.raises(ConfigError, match="nothing is asked for"):
            fleet.replan("q")
        _ends_well(fleet, query)


def _receiver(fleet: Fleet) -> object:
    """For which operator of the newest plan the west has sent rows at last."""
    shape = fleet.execution(fleet.query("q").id).shape.key
    (runner,) = [runner for runner in fleet.pool.of_shape(shape) if runner.region == "west"]
    sent = [parcel for _, record in runner.commits.after(0) for parcel in record["channels"]]
    return sent[-1]["operator"]


LAGGING = ["moving-state", "background", *(pytest.param(s, marks=pytest.mark.full) for s in STRATEGIES[2:])]


def _lagging(fleet: Fleet, streams: str, *seconds: int) -> None:
    for second in seconds:
        _push(fleet, random.Random(second), range(second, second + 1), streams=streams)
        fleet.process_available()


@pytest.mark.parametrize("strategy", [*LAGGING, pytest.param("stateless-order", marks=pytest.mark.full)])
def test_a_stream_that_lags_far_behind_misses_nothing(fleet: Fleet, strategy: str) -> None:
    """b has sent nothing while a and c are a hundred seconds ahead: what it meets must be there in every order."""
    query = fleet.submit(ALL_NEAR, "q", joins="stateless" if strategy == "stateless-order" else "materialised")
    _lagging(fleet, "ac", 10, 11, 40, 70, 110)
    fleet.replan("q", order="(a JOIN b) JOIN c", strategy=strategy, run_out=True)
    _lagging(fleet, "b", 10, 11, 12, 40, 70, 110, 130)
    _lagging(fleet, "ac", 131)
    _ends_well(fleet, query)
    (runs,) = fleet.deployment.queries.values()
    if strategy != "stateless-order":
        assert str(JoinBox.of(runs.shape.plan, fleet.deployment.streams).tree) == "a JOIN b JOIN c"


@pytest.mark.parametrize("strategy", LAGGING)
def test_a_lag_that_begins_during_the_change_loses_nothing(fleet: Fleet, strategy: str) -> None:
    """b is half a second behind when the change begins, and then falls further behind."""
    query = fleet.submit(ALL_NEAR, "q")
    _lagging(fleet, "abc", *range(10, 16))
    _lagging(fleet, "ac", 16)
    fleet.replan("q", order="(a JOIN b) JOIN c", strategy=strategy, run_out=True)
    _lagging(fleet, "ac", 17, 20, 40, 70, 110)
    _lagging(fleet, "b", 15, 16, 17, 20, 40, 41, 70, 110, 130)
    _lagging(fleet, "ac", 131)
    _ends_well(fleet, query)


class Joined:
    """What states of a version are computed of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: rows of both sides, of each join
        self.rows: list[tuple[int, int]] = []
        computed = inherit.computed

        def noted(left: LazyFrame, right: LazyFrame, *more: Any) -> Any:
            self.rows.append((left.toArrow().num_rows, right.toArrow().num_rows))
            return computed(left, right, *more)

        monkeypatch.setattr(inherit, "computed", noted)


def _waiting(fleet: Fleet) -> QueryHandle:
    """What a JOIN b has is made of six rows of a and four of b; the switch waits for b."""
    query = fleet.submit(ALL_NEAR, "q")
    _lagging(fleet, "abc", 12, 13)
    _lagging(fleet, "ac", 15)
    fleet.replan("q", order="(a JOIN b) JOIN c", strategy="background")
    fleet.process_available()
    return query


def _switches(fleet: Fleet, query: QueryHandle) -> None:
    """After two more rows of a and four of b."""
    _lagging(fleet, "a", 17)
    _lagging(fleet, "b", 14)
    (old,) = fleet.deployment.queries.values()
    assert old.successor is not None, "it waits"
    _lagging(fleet, "b", 17)
    _lagging(fleet, "abc", *range(20, 24))
    (runs,) = fleet.deployment.queries.values()
    assert runs.inherits == old.id
    _ends_well(fleet, query)


def test_at_the_switch_only_what_came_since_is_joined(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = Joined(monkeypatch)
    query = _waiting(fleet)
    assert joined.rows == [(6, 4)]
    _switches(fleet, query)
    assert joined.rows == [(6, 4), (2, 8), (6, 4)]


def test_what_was_made_ahead_is_known_through_compaction(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states are rewritten while the change waits, those rows apart that came since."""
    monkeypatch.setattr(state, "FAN_IN", 2)
    joined = Joined(monkeypatch)
    query = _waiting(fleet)
    _switches(fleet, query)
    assert joined.rows == [(6, 4), (2, 8), (6, 4)]


def test_marks_that_are_not_carried_on_cost_time_and_no_result(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is computed at the switch where the rows of which states were made are not known any more."""
    joined = Joined(monkeypatch)
    query = _waiting(fleet)
    monkeypatch.setattr(state, "FAN_IN", 2)
    monkeypatch.setattr(state, "carried_on", lambda crowd, written: [one for one in written if one is not None])
    _switches(fleet, query)
    assert joined.rows == [(6, 4), (8, 8)]


def test_large_states_are_made_ahead_and_joined_by_jobs(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inherit, "COMPUTED", SizePolicy(small_rows=0, handed_rows=0, handed_files=0))
    monkeypatch.setattr(state, "MOST_INLINE", 0)  # (rows in records are never joined by a job)
    found, computed = list[bool](), inherit.computed

    def noted(left: Any, right: Any, *more: Any) -> Any:
        found.append(isinstance(left, LazyFrame) or isinstance(right, LazyFrame))
        return computed(left, right, *more)

    monkeypatch.setattr(inherit, "computed", noted)
    _switches(fleet, _waiting(fleet))
    assert found == [False, False, False]


def test_a_process_that_takes_over_makes_states_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody remembers what was made, and no rows need come for it to be made again."""
    joined = Joined(monkeypatch)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        _three_streams(fleet)
        _waiting(fleet)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        fleet.process_available()
        assert joined.rows == [(6, 4), (6, 4)]
        _switches(fleet, fleet.query("q"))
    assert joined.rows == [(6, 4), (6, 4), (2, 8), (6, 4)]


#: rows of a and c that no b brings together meet only where a and c are joined first
DIVIDED = (
    f"SELECT a.v AS x, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} "
    f"JOIN c ON a.k = c.k AND c.ts {NEAR.format('a')} AND element_at(array(1, 2, 3), a.v - c.v) > 0"
)


def test_a_new_plan_whose_states_cannot_be_made_is_given_up_and_the_old_goes_on(fleet: Fleet) -> None:
    """Nothing is lost, and the record says why; another change can be made afterwards."""
    query = fleet.submit(DIVIDED, "q")

    def push(seconds: range, meet: bool) -> None:
        for second in seconds:
            at = START + dt.timedelta(seconds=second)
            for stream, v in (("a", 5), ("b", 1), ("c", 2)):
                fleet.push(stream, [{"k": second % 2, "v": v + second % 2, "ts": at}])
            for stream in "ac" if meet else "":
                fleet.push(stream, [{"k": 9, "v": 7, "ts": at}])
        fleet.process_available()

    push(range(10, 14), True)
    before = fleet.execution(query.id).shape
    fleet.replan("q", order="(a JOIN c) JOIN b", strategy="background")
    push(range(14, 30), False)
    (runs,) = fleet.deployment.queries.values()
    assert (runs.shape, runs.successor) == (before, None)
    (told,) = [PlanChangeRecord.from_json(one) for one in fleet.store.get_document(PLAN_CHANGES)]
    assert "INVALID_INDEX_OF_ZERO" in told.reverted
    fleet.replan("q", order="(b JOIN a) JOIN c", strategy="background")
    fleet.replan("q", order="a JOIN (b JOIN c)", dry_run=True)
    _ends_well(fleet, query)


def test_a_prepared_plan_that_finds_no_place_is_given_up(fleet: Fleet) -> None:
    """While the change waits for b, the site gets too small for both plans."""
    query = fleet.submit(ALL_NEAR, "q")
    _lagging(fleet, "abc", *range(10, 16))
    _lagging(fleet, "ac", 40)
    fleet.replan("q", order="(a JOIN b) JOIN c", strategy="moving-state")
    fleet.change([CapacityChanged(SiteId("west"), 5.0)])
    _lagging(fleet, "abc", *range(41, 60))
    (runs,) = fleet.deployment.queries.values()
    assert (runs.id, runs.successor) == (query.id, None)
    (told,) = [PlanChangeRecord.from_json(one) for one in fleet.store.get_document(PLAN_CHANGES)]
    assert "no place" in told.reverted
    fleet.replan("q", order="(b JOIN c) JOIN a", dry_run=True)
    _ends_well(fleet, query)


@pytest.mark.parametrize("sql", [PLAIN, COUNTED], ids=["rows", "an aggregate above"])
def test_a_probing_join_changes_its_order_in_one_epoch_and_moves_nothing(fleet: Fleet, sql: str) -> None:
    random_ = random.Random(7)
    query = fleet.submit(sql, "q", joins="stateless")
    assert "moved:     nothing" in fleet.replan("q", order="(b JOIN c) JOIN a", dry_run=True)
    _push(fleet, random_, range(12))
    before = fleet.deployment.epoch
    fleet.replan("q", order="(b JOIN c) JOIN a")
    assert fleet.deployment.epoch == before + 1
    assert fleet.deployment.queries["q"].probes == ("b", "c", "a")  # type: ignore[index]
    _push(fleet, random_, range(12, 20))
    fleet.replan("q", order="c JOIN a JOIN b", strategy="stateless-order")
    _push(fleet, random_, range(20, 30))
    (runner,) = fleet.pool.runners.values()
    assert len(runner.memory.states) == 3 + (sql == COUNTED)  # a, b, c; nothing in between
    _ends_well(fleet, query)


def test_joins_of_joins_over_few_rows_need_no_job(
    fleet: Fleet, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probing join joins one stream after the other; so does a state that is computed of a computed one."""
    jobs, collect = list[object](), Java.collect
    monkeypatch.setattr(Java, "collect", lambda java, *of: jobs.append(of) or collect(java, *of))
    fleet.stream("d", "k int, v int, ts timestamp", site="west", ahead=None)
    random_ = random.Random(3)
    probing, query = fleet.submit(FOUR, "p", joins="stateless"), fleet.submit(FOUR, "q")
    _push(fleet, random_, range(12), streams="abcd")
    wish, plans = PlanWish("((d JOIN a) JOIN b) JOIN c"), fleet._operations.plans
    found = plans.planned(query.id, wish, "background", QueryId("q~9"))
    assert found is not None
    region = next(iter(fleet.pool.runners.values())).region
    rehearse(spark, fleet.store, region, fleet.deployment, found.first[0])
    assert not jobs
    _ends_well(fleet, probing)
    assert query.verdict().equal


def test_a_probing_join_moves_with_its_state_and_shares_its_shape_with_another_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    random_ = random.Random(3)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        sites = [Site("west", "west"), Site("east", "east"), Site("cloud", "cloud", kind="cloud")]  # type: ignore[arg-type]
        fleet.topology.add(Topology.of(sites, [Link("west", "cloud"), Link("east", "cloud")]))  # type: ignore[arg-type]
        for stream, site in zip("abcd", ("west", "east", "west", "east"), strict=True):
            fleet.stream(stream, "k int, v int, ts timestamp", site=site, ahead=None)
        query = fleet.submit(FOUR, "q", joins="stateless")
        other = fleet.submit(FOUR, "p", joins="stateless")
        fleet.replan("p", order="d JOIN a JOIN b JOIN c")
        (join,) = [i for i, op in enumerate(fleet.execution(query.id).shape.plan.operators) if op.stateful]
        for turn, site in enumerate(("west", "east", "cloud", "west")):
            fleet.move({f"q/{join}": site})
            _push(fleet, random_, range(8 * turn, 8 * turn + 4), streams="abcd")
            _push(fleet, random_, range(8 * turn + 4, 8 * turn + 8), process=False, streams="abcd")
        fleet.replan("q", order="c JOIN b JOIN a JOIN d")
        _push(fleet, random_, range(32, 36), streams="abcd")
        _ends_well(fleet, query)
        assert other.verdict().equal


def test_what_a_strategy_refuses_changes_nothing(fleet: Fleet) -> None:
    fleet.submit(PLAIN, "q")
    fleet.submit(PLAIN, "probing", joins="stateless")
    before = fleet.deployment
    with pytest.raises(ConfigError, match="only when new rows come, and pausing holds those back"):
        fleet.replan("q", order="(b JOIN c) JOIN a", strategy="pause-drain-resume")
    with pytest.raises(ConfigError, match="keep intermediate states"):
        fleet.replan("q", order="(b JOIN c) JOIN a", strategy="stateless-order")
    with pytest.raises(ConfigError, match="no intermediate state"):
        fleet.replan("probing", order="(b JOIN c) JOIN a", strategy="background")
    with pytest.raises(ConfigError, match="'d' is no stream"):
        fleet.replan("probing", order="(b JOIN d) JOIN a")
    with pytest.raises(ConfigError, match="materialised"):
        fleet.submit(PLAIN, "other", joins="none")  # type: ignore[arg-type]
    assert fleet.deployment == before


def test_filters_are_pushed_up_and_down(fleet: Fleet) -> None:
    random_ = random.Random(7)
    query = fleet.submit(COUNTED.replace("GROUP BY", "WHERE b.v > 0 AND a.v < 3 GROUP BY"), "q")
    streams = fleet.deployment.streams
    _push(fleet, random_, range(10))
    told = fleet.replan("q", filters_up=["b"], dry_run=True)
    assert "possible:  pause-drain-resume, parallel-track" in told or "possible:  parallel-track" in told
    with pytest.raises(ConfigError, match="parallel-track"):
        fleet.replan("q", filters_up=["b"], strategy="moving-state")
    fleet.replan("q", filters_up=["b"])
    _push(fleet, random_, range(10, 40))
    assert filters_above(fleet.execution(query.id), streams) == ("b__v > __p1",)
    fleet.replan("q", filters_down=["b"])
    _push(fleet, random_, range(40, 70))
    assert len(fleet.deployment.queries) == 1
    assert filters_above(fleet.execution(query.id), streams) == ()
    for wrong in ({"filters_up": ["c"]}, {"filters_down": ["a"]}, {"filters_up": ["x"]}, {"partial": None}):
        with pytest.raises(ConfigError, match="remedy"):
            fleet.replan("q", **wrong)  # type: ignore[arg-type]
    _ends_well(fleet, query)


class Died(Exception):  # noqa: N818 - an event, not an error
    """The process is gone at some moment of a micro-batch."""


def _crashes(strategy: str, moment: str) -> object:
    quick = (strategy, moment) == ("background", "committed")
    return pytest.param(strategy, moment, marks=() if quick else pytest.mark.full)


@pytest.mark.parametrize(
    ("strategy", "moment"), [_crashes(s, m) for s in (*STRATEGIES, "stateless-order") for m in ("staged", "committed")]
)
def test_a_crash_at_every_step_of_a_change(spark: SparkSession, tmp_path: Path, strategy: str, moment: str) -> None:
    """From the change on, the process dies in every second micro-batch, and another one goes on with its folder."""
    random_, count, armed = random.Random(13), 0, False

    def at(now: str) -> None:
        nonlocal count
        count += armed and now == moment
        if armed and now == moment and count % 2:
            raise Died

    def opened() -> Fleet:
        while True:
            try:
                return Fleet(tmp_path, spark, retention=Retention(keep=True), at=at)
            except Died:  # while it takes up what the last one had asked for
                pass

    fleet = opened()
    _three_streams(fleet)
    fleet.submit(PLAIN, "q", joins="stateless" if strategy == "stateless-order" else "materialised")
    _push(fleet, random_, range(12))
    fleet.replan("q", order="(b JOIN c) JOIN a", strategy=strategy, run_out=True)
    armed = True
    for second in range(12, 42, 2):
        _push(fleet, random_, range(second, second + 2), process=False)
        while True:
            try:
                fleet.process_available()
                break
            except Died:
                fleet.stop()
                fleet = opened()
    armed = False
    fleet.process_available()
    assert count > 8
    assert len(fleet.deployment.queries) == 1
    _ends_well(fleet, fleet.query("q"))
    fleet.stop()


@pytest.mark.full
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_change_of_plan_and_of_the_topology_at_once(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    """An operator of the old plan moves in the epoch in which the new one begins, or right after it."""
    random_ = random.Random(17)
    with Fleet(tmp_path, spark, retention=Retention(keep=True)) as fleet:
        sites = [Site("west", "west"), Site("cloud", "cloud", kind="cloud")]  # type: ignore[arg-type]
        fleet.topology.add(Topology.of(sites, [Link("west", "cloud")]))  # type: ignore[arg-type]
        for stream, site in zip("abc", ("west", "cloud", "west"), strict=True):
            fleet.stream(stream, "k int, v int, ts timestamp", site=site, ahead=None)
        query = fleet.submit(COUNTED, "q")
        joins = [i for i, op in enumerate(fleet.execution(query.id).shape.plan.operators) if op.stateful]
        _push(fleet, random_, range(12))
        fleet.move({f"q/{joins[0]}": "west"})
        fleet.replan("q", order="(b JOIN c) JOIN a", strategy=strategy, run_out=True)
        now = fleet.execution(query.id)
        moved = [i for i, op in enumerate(now.shape.plan.operators) if op.stateful]
        fleet.move({f"{now.id}/{moved[-1]}": "west", f"{now.id}/{moved[0]}": "cloud"})
        _push(fleet, random_, range(12, 16), process=False)
        _push(fleet, random_, range(16, 50))
        assert len(fleet.deployment.queries) == 1
        _ends_well(fleet, query)
