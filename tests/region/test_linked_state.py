"""Many rows that lie in files stay there when they become state: links and SELECT lists, under moves and crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.api.fleet import Fleet
from godwit.engine.file_frame import FileFrame
from godwit.engine.segments import as_one, bounds_of
from godwit.engine.size_policy import SizePolicy
from godwit.storage import inline
from godwit.storage.log import Segment
from godwit.storage.overlays import edited, rows_by_query
from godwit.storage.store import Store
from tests.region.world import Attach, Crash, Move, Push, Step, World, sized

QUERIES = {
    "spread": """SELECT load, count(*) AS n, sum(boarded) AS s, avg(boarded) AS m, max(train) AS t, window.end AS until
                 FROM passengers GROUP BY load, window(ts, '10 seconds')""",
    "join": """SELECT a.train, b.train AS other, a.ts, b.ts AS met, a.boarded + 1 AS more FROM passengers a
               JOIN passengers b ON a.coach = b.coach AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 SECONDS""",
    "left": """SELECT a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a LEFT JOIN passengers b
               ON a.boarded = b.alighted AND a.load < b.load
               AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND""",
    "asof": """SELECT /*+ keep('1 hour') */ a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a
               ASOF JOIN passengers b MATCH_CONDITION (a.ts > b.ts) ON a.coach = b.coach""",
}
PUSHES = [Push(train, 3.0 * turn, 6) for turn in range(6) for train in range(4)]


@pytest.mark.parametrize("name", QUERIES)
def test_rows_in_files_become_state_by_links(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All trains are where the query is, then it moves away with that state; a train hops; the process dies twice."""
    monkeypatch.setattr(inline, "INLINE_BYTES", 0)
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: QUERIES[name]})
    steps = Step((0, 1, 2, 0, 1, 2))
    world.play([Attach(1, "west"), Attach(3, "west"), Move(name, "west"), *PUSHES[:4], steps, *PUSHES[4:8], steps])
    world.play([*PUSHES[8:12], steps])
    kept = str([runner.memory.states for runner in world.fleet.pool.runners.values()])
    assert "linked-" in kept
    assert world.fleet.status().state[0].rows > 0  # counts the rows of each query
    script = [Crash("staged"), *PUSHES[12:14], steps, Move(name, "east"), *PUSHES[14:18], steps, Crash("committed")]
    world.play([*script, Attach(2, "east"), *PUSHES[18:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert world.fleet.query(name).results().count() > 0


def test_where_no_links_can_be_made_rows_are_written(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an object store, whose links are copies."""
    monkeypatch.setattr(inline, "INLINE_BYTES", 0)
    monkeypatch.setattr(Store, "links", False)
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {"join": QUERIES["join"]})
    steps = Step((0, 1, 2, 0, 1, 2))
    world.play([Attach(1, "west"), Attach(3, "west"), Move("join", "west"), *PUSHES[:4], steps, *PUSHES[4:8], steps])
    assert "linked-" not in str([runner.memory.states for runner in world.fleet.pool.runners.values()])
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_the_source_of_a_column_is_followed_through_renamings_only() -> None:
    selects = (("`at` AS a__at", "`key` AS `a__key`"), ("*", "0L AS g"), ("a__key + 1 AS key", "`a__at`", "g"))
    frame = FileFrame(None, (), selects)  # type: ignore[arg-type]
    found = frame.source("a__at")
    assert found is not None
    assert (found[0], found[1](5)) == ("at", 5)
    assert frame.source("key") is None
    assert frame.source("g") is None
    later = FileFrame(None, (), (*selects, ("a__at + 1 AS end",), ("*", "1 AS one")), {(3, "end"): ("a__at", _next)})  # type: ignore[arg-type]
    found = later.source("end")
    assert found is not None
    assert (found[0], found[1](5)) == ("at", 6)


def test_spark_is_asked_for_columns_only_where_a_list_does_not_name_them() -> None:
    schema = '{"type":"struct","fields":[{"name":"at"},{"name":"key"}]}'
    frame = FileFrame(None, (Segment((), 0, 0, schema),))  # type: ignore[arg-type]
    assert frame.columns == ["at", "key"]
    named = frame.selectExpr("`at` AS `a__at`", "key", "'x AS y' AS q").selectExpr("*", "a__at + 1 AS `end`")
    assert named.columns == ["a__at", "key", "q", "end"]
    assert named.drop("key").columns == ["a__at", "q", "end"]
    asked = FileFrame(
        lambda selects: SimpleNamespace(columns=[f"{len(selects)} list"]), named.segments, (("key + 1",),)
    )  # type: ignore[arg-type,return-value]
    assert asked.columns == ["1 list"]


def _next(at: int) -> int:
    return at + 1


def test_bounds_come_from_the_footers_or_not_at_all(tmp_path: Path) -> None:
    store, schema = Store.local(tmp_path), '{"type":"struct","fields":[]}'
    rows = pa.table({"at": pa.array([3, 1, 2], pa.timestamp("us", tz="UTC"))})
    for file, told in (("with", True), ("without", False)):
        pq.write_table(rows, tmp_path / f"{file}.parquet", write_statistics=told)
        segment = Segment((f"{file}.parquet",), 3, 1, schema, store=store)
        frame = FileFrame(None, (segment,), (("`at` AS t",),))  # type: ignore[arg-type]
        assert bounds_of(frame, "t") == ((1, 3) if told else None)


def test_rows_of_files_that_do_not_name_their_query_are_counted() -> None:
    segment = edited(Segment(("f",), 7, 1, ""), "select", "`a`", "'q1' AS __query")
    assert rows_by_query(segment) == {"q1": 7}
    assert rows_by_query(edited(segment, "query", "q1@2")) == {"q1@2": 7}


def test_files_without_checksums_do_not_get_those_of_others() -> None:
    some = [Segment(("a",), 1, 10, "s"), Segment(("b",), 2, 20, "s", sums=(7,))]
    whole = as_one(some, 3, 4)
    assert (whole.files, whole.sums, whole.rows, whole.bytes) == (("a", "b"), (), 3, 30)
    assert (whole.low, whole.high) == (3, 4)
    assert as_one(some[1:], 3, 4).sums == (7,)
