"""Changed SQL of a running query: what both texts have goes on, the rest begins again, and nothing is lost or twice.

A second fleet gets the same rows and runs the new text from the beginning. Where everything goes on, the replaced query
must answer from the switch on exactly what that one answers from then on; its own answers are judged by the oracle.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, DeploymentError, SqlError, StateError
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology
from godwit.testing.collected import Collected

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WINDOW = "FROM a WHERE v > 0 GROUP BY k, window(ts, '5 seconds')"
SLIDING = "FROM a WHERE v > 0 GROUP BY k, window(ts, '6 seconds', '2 seconds')"
NEAR = "BETWEEN {0}.ts - INTERVAL 4 SECONDS AND {0}.ts + INTERVAL 3 SECONDS"
JOIN = f"FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')}"
COUNTED = f"{JOIN} GROUP BY a.k, window(b.ts, '5 seconds')"
#: old text, new text: everything goes on
WHOLE = {
    "another HAVING": (
        f"SELECT k, count(*) AS n, sum(v) AS t {WINDOW}",
        f"SELECT k, count(*) AS n, sum(v) AS t {WINDOW} HAVING sum(v) > 4",
    ),
    "another projection, fewer aggregates": (
        f"SELECT k, count(*) AS n, sum(v) AS t, max(v) AS m {WINDOW}",
        f"SELECT k + 1 AS k, sum(v) * 2 AS t, window.end AS e {WINDOW}",
    ),
    "a sliding window": (f"SELECT k, count(*) AS n {SLIDING}", f"SELECT k, count(*) AS n {SLIDING} HAVING k = 1"),
    "pairs, with a further condition": (
        f"SELECT a.v AS x, b.v AS y {JOIN}",
        f"SELECT b.v AS y, a.v AS x {JOIN} AND a.v + b.v > 2",
    ),
    "a window above a join": (
        f"SELECT a.k AS k, count(*) AS n, sum(b.v) AS t {COUNTED}",
        f"SELECT a.k AS k, count(*) AS n {COUNTED} HAVING count(*) > 6",
    ),
}


def _fleet(spark: SparkSession, folder: Path) -> Fleet:
    fleet = Fleet(folder, spark, retention=Retention(keep=True))
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    for stream in "abc":
        fleet.stream(stream, "k int, v int, ts timestamp", site="west", ahead=None)
    return fleet


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    with _fleet(spark, tmp_path / "ours") as fleet:
        yield fleet


@pytest.fixture
def other(spark: SparkSession, tmp_path: Path) -> Iterator[Fleet]:
    with _fleet(spark, tmp_path / "theirs") as fleet:
        yield fleet


def _push(fleets: list[Fleet], seed: int, seconds: range) -> None:
    draw = random.Random(seed)
    for second in seconds:
        for stream in "abc":
            at = START + dt.timedelta(seconds=second)
            rows = [{"k": draw.randrange(2), "v": draw.randrange(4), "ts": at} for _ in range(2)]
            for fleet in fleets:
                fleet.push(stream, rows)
        if second % 4 == 0:
            for fleet in fleets:
                fleet.process_available()


def _rows(fleet: Fleet, query: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in fleet.query(query).results().collect())


@pytest.mark.parametrize(("old", "new"), WHOLE.values(), ids=WHOLE)
def test_what_both_texts_have_goes_on(fleet: Fleet, other: Fleet, old: str, new: str) -> None:
    fleet.submit(old, "q")
    other.submit(new, "q")
    _push([fleet, other], 7, range(13))
    fleet.process_available()
    other.process_available()
    before, due = _rows(fleet, "q"), _rows(other, "q")
    told = fleet.replace("q", new)
    assert "goes on:" in told
    assert "begins again" not in told
    _push([fleet, other], 8, range(13, 30))
    for one in (fleet, other):
        one.close_sources()
        one.process_available()
    (runs,) = fleet.deployment.queries.values()  # nothing is left of the old plan
    assert runs.sql == new
    columns_stay = "columns:" not in told
    since = _rows(other, "q") - due
    assert since
    assert _rows(fleet, "q") == since + (before if columns_stay else Counter())
    assert other.query("q").verdict().equal
    found = fleet.query("q").verdict()
    assert found.equal, str(found)
    assert found.got == sum(since.values())


def test_another_filter_below_begins_again_and_says_so(fleet: Fleet, other: Fleet) -> None:
    old = f"SELECT k, count(*) AS n {WINDOW}"
    new = old.replace("v > 0", "v > 1")
    fleet.submit(old, "q")
    _push([fleet, other], 7, range(13))
    fleet.process_available()
    assert "begins again: Aggregate" in fleet.replace("q", new, dry_run=True)
    assert fleet.execution(fleet.query("q").id).sql == old
    told = fleet.replace("q", new)
    assert "the running plan has no 'Filter a.v > 1'" in told
    other.submit(new, "q")
    _push([fleet, other], 8, range(13, 30))
    for one in (fleet, other):
        one.close_sources()
        one.process_available()
    found = fleet.query("q").verdict()
    assert found.equal, str(found)
    assert found.got == other.query("q").results().count()


def test_a_join_goes_on_below_a_window_that_begins(fleet: Fleet, other: Fleet) -> None:
    """Its windows count every pair that is made since the switch, also those with a row from before."""
    fleet.submit(f"SELECT a.k AS k, count(*) AS n {COUNTED}", "q")
    other.submit(f"SELECT a.k AS k, b.ts AS ts {JOIN}", "q")
    _push([fleet, other], 7, range(13))
    fleet.process_available()
    other.process_available()
    due = _rows(other, "q")
    text = f"SELECT a.k AS k, window.end AS e, count(*) AS n {JOIN} GROUP BY a.k, window(b.ts, '3 seconds')"
    told = fleet.replace("q", text)
    assert "goes on:      Join" in told
    assert "begins again: Aggregate" in told
    _push([fleet, other], 8, range(13, 30))
    for one in (fleet, other):
        one.close_sources()
        one.process_available()
    counts: Counter[tuple[object, object]] = Counter()
    for (k, ts), n in (_rows(other, "q") - due).items():
        assert isinstance(ts, dt.datetime)
        counts[k, (ts.timestamp() // 3 + 1) * 3] += n
    assert {(k, e.timestamp()): n for k, e, n in _rows(fleet, "q")} == counts  # type: ignore[attr-defined]
    with pytest.raises(StateError, match="part of it began again"):
        fleet.query("q").verdict()


def test_totals_go_on(fleet: Fleet) -> None:
    total = "SELECT /*+ keep('forever') */ k, sum(v) AS t, count(*) AS n FROM a GROUP BY k"
    fleet.submit(total, "q")
    _push([fleet], 7, range(13))
    fleet.process_available()
    assert "goes on:" in fleet.replace("q", total.replace("sum(v) AS t", "sum(v) + 0 AS t"))
    _push([fleet], 8, range(13, 30))
    fleet.process_available()
    rows = {row["k"]: (row["t"], row["n"]) for row in fleet.query("q").results().collect()}
    draw_total: dict[int, list[int]] = {0: [0, 0], 1: [0, 0]}
    for seed, seconds in ((7, range(13)), (8, range(13, 30))):
        draw = random.Random(seed)
        for _ in seconds:
            for stream in "abc":
                for _ in range(2):
                    k, v = draw.randrange(2), draw.randrange(4)
                    if stream == "a":
                        draw_total[k][0] += v
                        draw_total[k][1] += 1
    assert rows == {k: tuple(told) for k, told in draw_total.items()}


def test_twice_in_a_row_after_another_order_and_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    three = (
        f"SELECT a.v AS x, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} "
        f"JOIN c ON b.k = c.k AND c.ts {NEAR.format('b')}"
    )
    with _fleet(spark, tmp_path / "f") as fleet:
        query, delivered = fleet.submit(three, "q"), Collected()
        query.write_to(delivered)
        _push([fleet], 7, range(9))
        fleet.replan("q", order="(b JOIN c) JOIN a")
        _push([fleet], 8, range(9, 17))
        assert "begins again" not in fleet.replace("q", f"{three} WHERE a.v + c.v > 1")
        _push([fleet], 9, range(17, 25))
        fleet.process_available()
        assert len(delivered.rows) == query.results().count()
    with _fleet(spark, tmp_path / "f") as fleet:
        assert "begins again" not in fleet.replace("q", f"{three} WHERE a.v + c.v > 2")
        _push([fleet], 10, range(25, 40))
        fleet.close_sources()
        fleet.process_available()
        assert len(fleet.deployment.queries) == 1
        found = fleet.query("q").verdict()
        assert found.equal, str(found)
        assert found.got > 5


BAD = {
    "unknown query": ("p", f"SELECT k, count(*) AS n {WINDOW}", DeploymentError, "there is no query 'p'"),
    "no SQL": ("q", "SELEC k", SqlError, "does not begin a query"),
    "other streams": ("q", "SELECT k, v FROM b", ConfigError, "nothing can go on"),
    "rows that replace each other": (
        "q",
        "SELECT /*+ keep('forever') */ k, count(*) AS n FROM a GROUP BY k",
        ConfigError,
        "replace each other",
    ),
    "another type": ("q", f"SELECT k, sum(v) / 2.0 AS n {WINDOW}", DeploymentError, "give the new column another name"),
    "other columns for a sink": ("q", f"SELECT k, count(*) AS m {WINDOW}", DeploymentError, "follows its results"),
    "a stream to be fed": ("q", f"INSERT INTO d SELECT k, window.end AS n {WINDOW}", ConfigError, "no stream"),
    "an unbounded join": ("q", "SELECT a.k, b.v AS n FROM a JOIN b ON a.k = b.k", SqlError, "remedy|add"),
}


def test_bad_texts_are_refused_and_nothing_changes(fleet: Fleet) -> None:
    query = fleet.submit(f"SELECT k, count(*) AS n {WINDOW}", "q")
    query.write_to(Collected())
    before = fleet.deployment
    for name, sql, error, problem in BAD.values():
        for dry_run in (True, False):
            with pytest.raises(error, match=problem):
                fleet.replace(name, sql, dry_run=dry_run)
    fleet.replace("q", f"SELECT k, count(*) AS n {WINDOW}")  # the text it has
    assert fleet.deployment == before
