"""Keys that migrate while rows come: the results are the oracle's, by every strategy; bad input moves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, DeploymentError
from godwit.migration.phases import KEY_STRATEGIES
from godwit.model.keys import NULL_KEY, HashRange, Listed, Rest, bucket_of, contains, listed
from godwit.region import key_join
from godwit.region.key_rows import inside as few
from godwit.region.key_sql import bucket, key_text, within
from godwit.storage.log import Segment
from tests.region.world import QUERIES, Action, Crash, Push, Step, World
from tests.sampled import sampled

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 6) for train in range(4)]
ALL = Step((0, 1, 2))


def commits(fleet: Fleet) -> Iterator[dict[str, Any]]:
    for runner in fleet.pool.runners.values():
        yield from (record for _, record in runner.commits.after(0))


def play(world: World, strategy: str, between: list[Action]) -> None:
    """Windows are open when their keys go to another region, and go on before they are closed."""
    world.play([*ROWS[:6], ALL])
    world.fleet.migrate("tumbling", keys=["t0", "t1"], to="west", strategy=strategy)
    world.play([*ROWS[6:9], *between, *ROWS[9:11], ALL])
    world.fleet.migrate("tumbling", keys=("buckets", 0, 40), to="east", strategy=strategy)
    world.play([*ROWS[11:14], *between, *ROWS[14:16], Step((2, 0, 1))])
    world.fleet.migrate("tumbling", keys=["t0", "t3"], to="east", strategy=strategy)
    world.play([*ROWS[16:19], *between, *ROWS[19:21], Step((1, 0, 2))])
    world.fleet.migrate("tumbling", keys=["t0", "t1"], to="cloud", strategy=strategy)
    world.play([*between, *ROWS[21:]])


@pytest.mark.parametrize("strategy", KEY_STRATEGIES)
def test_windows_whose_keys_migrate(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    play(world, strategy, [ALL, ALL])
    assert [str(v) for v in world.finish() if not v.equal] == []
    told = list(commits(world.fleet))
    moved = {h["move"][8]["number"] for record in told for h in record["handovers"] if len(h["move"]) > 8}
    assert len(moved) >= 3, "keys did change region"
    assert all(not runner.memory.underway for runner in world.fleet.pool.runners.values())
    assert not any(runner.memory.rooms for runner in world.fleet.pool.runners.values())
    assert not world.fleet.plane.keys.active


@pytest.mark.parametrize("name", ["hopping", "session", "join", "nested", "union"])
def test_other_operators_by_auto(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = World(open_fleet, {name: QUERIES[name]})
    operators = world.fleet.deployment.queries[world.fleet.known(name)].shape.plan.operators
    operator = next(i for i, node in enumerate(operators) if node.stateful)
    world.play([*ROWS[:8], ALL])
    world.fleet.migrate(name, keys=("buckets", 0, 32), to="west", operator=operator)
    world.play([*ROWS[8:14], Step((0, 1)), *ROWS[14:16], ALL])
    world.fleet.migrate(name, keys=("buckets", 16, 64), to="east", operator=operator)
    world.play([*ROWS[16:20], Step((2, 1, 0)), *ROWS[20:]])
    assert [str(v) for v in world.finish() if not v.equal] == []


@pytest.mark.parametrize("strategy", sampled(["falcon", "falcon-oop", "hot-backup"], "falcon", "hot-backup"))
def test_joins_whose_keys_are_copied(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """Rows that come while a copy is open meet those from before it at the source, and nobody does so twice."""
    world = World(open_fleet, {"join": QUERIES["join"]})
    world.play([*ROWS[:8], ALL])
    for keys, to, rows in (
        (["0", "1"], "west", ROWS[8:12]),
        (("buckets", 0, 40), "east", ROWS[12:16]),
        (["1", "2"], "cloud", ROWS[16:20]),
    ):
        world.fleet.migrate("join", keys=keys, to=to, strategy=strategy)
        world.play([*rows[:2], ALL, *rows[2:], Step((2, 1, 0)), ALL])
    world.play(ROWS[20:])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) >= 3
    assert not world.fleet.plane.keys.active


@pytest.mark.parametrize(
    ("moment", "strategy"),
    [("staged", "delta"), ("committed", "falcon"), ("staged", "partial-pause")],  # (all of them: the last test here)
)
def test_a_crash_while_keys_migrate(open_fleet: Callable[..., Fleet], strategy: str, moment: str) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    play(world, strategy, [Step((0,)), Crash(moment), Step((1, 2))])
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_spark_and_python_agree_on_buckets_and_key_sets(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [("t1", 4), ("", -7), ("Zürich", 0), (None, 3), ("a'b\\c", None)]
    frame = spark.createDataFrame(keys, "name string, coach int")
    sql = ["name", "coach"]
    texts = [tuple(NULL_KEY if part is None else str(part) for part in key) for key in keys]
    found = [row["b"] for row in frame.selectExpr(f"{bucket(sql)} AS b", f"{key_text(sql)} AS k").collect()]
    assert found == [bucket_of(key) for key in texts]
    some = Listed(frozenset(texts[:1] + texts[3:]))
    rest = Rest((some, HashRange(0, 20)))
    for keyset in (some, HashRange(0, 30), HashRange(0, 64, frozenset(texts[:2])), rest):
        inside = [row["x"] for row in frame.selectExpr(f"{within(keyset, sql)} AS x").collect()]
        assert inside == [contains(keyset, key) for key in texts]
        assert few(frame.toArrow(), keyset, sql).to_pylist() == inside
        monkeypatch.setattr(key_join, "LISTED", 0)  # as if the keys were many: they are joined
        mine, others = key_join.parted(frame, "true", keyset, sql)
        assert [{tuple(row) for row in one.collect()} for one in (mine, others)] == [
            {key for key, within_ in zip(keys, inside, strict=True) if within_ == wanted} for wanted in (True, False)
        ]
        monkeypatch.undo()


def test_bad_input_changes_nothing(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {name: QUERIES[name] for name in ("filter", "tumbling", "join")})
    fleet = world.fleet
    epoch = fleet.deployment.epoch
    wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (DeploymentError, "there is no query 'nobody'", partial(fleet.migrate, "nobody", keys="t1", to="west")),
        (DeploymentError, "keeps no state by key", partial(fleet.migrate, "filter", keys="t1", to="west")),
        (
            DeploymentError,
            "keeps no state by key",
            partial(fleet.migrate, "tumbling", keys="t1", to="west", operator=0),
        ),
        (DeploymentError, "no operator 99", partial(fleet.migrate, "tumbling", keys="t1", to="west", operator=99)),
        (DeploymentError, "no such site", partial(fleet.migrate, "tumbling", keys="t1", to="nowhere")),
        (DeploymentError, "is not of type int", partial(fleet.migrate, "join", keys="x", to="west")),
        (DeploymentError, "not within", partial(fleet.migrate, "tumbling", keys=("buckets", 3, 99), to="west")),
        (DeploymentError, "no key of", partial(fleet.migrate, "tumbling", keys="zzz*", to="west")),
        (
            ConfigError,
            "no strategy 'magic'",
            partial(fleet.migrate, "tumbling", keys="t1", to="west", strategy="magic"),
        ),
    ]
    for kind, said, ask in wrong:
        with pytest.raises(kind, match=said):
            ask()
    assert fleet.deployment.epoch == epoch
    assert not fleet.deployment.key_routes
    assert listed("a").keys == {("a",)}


@pytest.mark.parametrize("strategy", sampled(["delta", "partial-pause", "falcon"], "delta", "falcon"))
def test_keys_that_migrate_every_200_ms_while_the_fleet_runs(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """Rows come all the time, keys go round the regions; in the end the results are those of the batch."""
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    run_round(world, "tumbling", strategy)
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) >= 10


def test_a_dry_run_says_what_would_move_and_moves_nothing(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    world.play([*ROWS[:8], *[ALL] * 3])
    epoch = world.fleet.deployment.epoch
    told = world.fleet.migrate("tumbling", keys="t*", to="west", dry_run=True)
    assert "by delta (switch, await)" in told
    assert "t0, t1, t2, t3: cloud -> edge-west over cloud - west: " in told
    assert "0 rows" not in told
    assert world.fleet.deployment.epoch == epoch


TOTALS = "SELECT /*+ keep('forever') */ train, count(*) AS n, sum(boarded) AS s FROM passengers GROUP BY train"
OVER = "SELECT train, ts, sum(boarded) OVER (PARTITION BY train ORDER BY ts ROWS 3 PRECEDING) AS s FROM passengers"


DUAL = [name for name in KEY_STRATEGIES if name != "delta"]


class Recording(World):
    """Remembers what every train has sent, in the order in which it did."""

    def _rows(self, train: int, second: float, rows: int) -> list[dict[str, Any]]:
        made = super()._rows(train, second, rows)
        self.__dict__.setdefault("sent", {}).setdefault(f"t{train}", []).extend(made)
        return made


def told(fleet: Fleet, query: str) -> list[dict[str, Any]]:
    """The results of a query as they left, one commit after the other."""
    found: list[dict[str, Any]] = []
    for runner in fleet.pool.runners.values():
        for _, record in runner.commits.after(0):
            for segment in record["results"]:
                tables = Segment.from_json(segment, fleet.store).tables()
                found += [row for table in tables for row in table.to_pylist() if row["__query"] == query]
    return found


def wrong_totals(world: Recording, ordered: bool = True) -> list[str]:
    """Every total that was ever told must be that of the first n rows of its train, for growing n."""
    faults, last = [], dict.fromkeys(world.sent, 0)
    for row in told(world.fleet, "totals"):
        train, n, s = row["train"], row["n"], row["s"]
        if s != sum(sent["boarded"] for sent in world.sent[train][:n]):
            faults.append(f"{train}: {s} is not the sum of {n} rows")
        if ordered and n <= last[train]:
            faults.append(f"{train}: {n} came after {last[train]}")
        last[train] = n
    return faults


@pytest.mark.parametrize("strategy", sampled(DUAL, "falcon", "on-demand"))
def test_totals_whose_keys_migrate(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """A total would be wrong without its state: the old owner goes on answering, or rows wait (late state: dual)."""
    world = Recording(open_fleet, {"totals": TOTALS})
    world.play([*ROWS[:8], ALL])
    world.fleet.migrate("totals", keys=["t0", "t1"], to="west", strategy=strategy)
    world.play([*ROWS[8:14], ALL, ALL, *ROWS[14:16], ALL])
    world.fleet.migrate("totals", keys=("buckets", 0, 40), to="east", strategy=strategy)
    world.play([*ROWS[16:20], Step((2, 1, 0)), ALL, *ROWS[20:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert wrong_totals(world, ordered=strategy != "falcon-oop") == []
    assert not world.fleet.plane.keys.active


@pytest.mark.parametrize("strategy", sampled(["falcon", "falcon-oop", "on-demand"], "on-demand"))
def test_totals_whose_keys_migrate_every_200_ms(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = Recording(open_fleet, {"totals": TOTALS})
    run_round(world, "totals", strategy)
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert wrong_totals(world, ordered=strategy != "falcon-oop") == []


def run_round(world: World, query: str, strategy: str) -> None:
    """Rows come all the time, and keys go round the regions, some of them before they have arrived."""
    world.fleet.control.may_begin = lambda place: True  # none waits for others, or for a window
    world.fleet.start()
    goals = [("t0", "west"), ("t1", "east"), ("t2", "west"), ("t0", "cloud"), ("t3", "east"), ("t1", "west")]
    for number, (second, (key, site)) in enumerate(zip(range(0, 72, 3), goals * 4, strict=True)):
        world.play([Push(train, second, 3) for train in range(4)])
        keys = [key] if number % 3 else ("buckets", number, number + 32)
        world.fleet.migrate(query, keys=keys, to=site, strategy=strategy)
        time.sleep(0.2)


COUNTED = """SELECT train, count(*) AS n, sum(boarded) AS s, max(alighted) AS most FROM passengers
             GROUP BY train, count_window(ts, 7)"""
WINDOW_FUNCTIONS = {
    "over": OVER,
    "carried": """SELECT train, ts, row_number() OVER (PARTITION BY train ORDER BY ts) AS n,
                         sum(boarded) OVER (PARTITION BY train ORDER BY ts) AS s,
                         lag(alighted) OVER (PARTITION BY train ORDER BY ts) AS l FROM passengers""",
    "range": """SELECT train, ts, max(boarded) OVER (PARTITION BY train ORDER BY ts
                RANGE BETWEEN INTERVAL 4 SECONDS PRECEDING AND CURRENT ROW) AS most FROM passengers""",
    "counted": COUNTED,
}


@pytest.mark.parametrize("strategy", sampled(["delta", "falcon", "hot-backup", "partial-pause"], "delta", "falcon"))
def test_window_functions_whose_keys_migrate(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """Rows wait for the watermark at the one and are answered at the other; both have passed different ones."""
    world = World(open_fleet, WINDOW_FUNCTIONS)
    world.play([*ROWS[:8], ALL, ALL])
    for to, some, rows in (("west", ["t0", "t1"], ROWS[8:14]), ("east", ("buckets", 0, 40), ROWS[14:20])):
        for name in WINDOW_FUNCTIONS:
            world.fleet.migrate(name, keys=some, to=to, strategy=strategy)
        world.play([*rows[:3], ALL, ALL, *rows[3:], ALL])
    world.play(ROWS[20:])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert not world.fleet.plane.keys.active


@pytest.mark.parametrize("strategy", sampled(["auto", "falcon-oop", "partial-pause"], "auto"))
def test_window_functions_whose_keys_migrate_every_200_ms(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = World(open_fleet, {"carried": WINDOW_FUNCTIONS["carried"]})
    run_round(world, "carried", strategy)
    assert [str(v) for v in world.finish() if not v.equal] == []
    last: dict[str, int] = {}
    for row in told(world.fleet, "carried") if strategy != "falcon-oop" else ():
        assert row["n"] > last.get(row["train"], 0), f"row {row} came after {last}"
        last[row["train"]] = row["n"]


@pytest.mark.full
@pytest.mark.parametrize("query", ["totals", "tumbling", "carried"])
@pytest.mark.parametrize("strategy", KEY_STRATEGIES)
@pytest.mark.parametrize("moment", ["polled", "staged", "committed", "published"])
@pytest.mark.parametrize("steps", range(0, 8, 2))
def test_a_crash_in_every_phase(
    open_fleet: Callable[..., Fleet], query: str, strategy: str, moment: str, steps: int
) -> None:
    """The process dies after so many micro-batches of a migration: of its source, its destination, or the root."""
    if query == "totals" and strategy == "delta":
        pytest.skip("totals cannot be merged later")
    world = World(open_fleet, {query: {**QUERIES, **WINDOW_FUNCTIONS, "totals": TOTALS}[query]})
    world.play([*ROWS[:8], ALL, ALL])
    world.fleet.migrate(query, keys=["t0", "t1"], to="west", strategy=strategy)
    world.play([*ROWS[8:12], *(Step((number,)) for number in range(steps)), Crash(moment), *ROWS[12:16], ALL])
    world.fleet.migrate(query, keys=("buckets", 0, 40), to="east", strategy=strategy)
    world.play([*ROWS[16:20], Step((2, 1)), Crash(moment), *ROWS[20:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
