"""State is read as its edits say, whether its few rows are handed to Spark or its many are read by it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.engine.lazy_frame import made
from godwit.engine.size_policy import SizePolicy
from godwit.region import state as state_module
from godwit.region.seen import mark_of, marked, unmarked, weight
from godwit.region.state import State
from godwit.storage.overlays import edited
from godwit.storage.place import Place
from godwit.storage.store import Store

ROWS = [("a", 1, 0), ("a", 2, 5), ("b", 3, 0), ("b", 4, 7)]
SCHEMA = "__query string, n int, __gen bigint"
NUMBERS = '{"type":"struct","fields":[{"name":"n","type":"integer","nullable":true,"metadata":{}}]}'
OLD_A, NO_A, NO_B = ("without", "a", 3), ("without", "a", 9), ("without", "b", 9)


def place(folder: Path) -> Place:
    return Place(Store.local(folder), "data")


@pytest.mark.parametrize(("handed", "inline"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize(
    ("edits", "left"),
    [
        ([], {("a", 1, 0), ("a", 2, 5), ("b", 3, 0), ("b", 4, 7)}),
        ([OLD_A], {("a", 2, 5), ("b", 3, 0), ("b", 4, 7)}),
        ([NO_A, NO_B], set()),
        ([("generation", 8)], {("a", 1, 8), ("a", 2, 8), ("b", 3, 8), ("b", 4, 8)}),
        ([OLD_A, ("generation", 8), NO_B], {("a", 2, 8)}),
        ([("generation", 8), ("generation", 9)], {("a", 1, 9), ("a", 2, 9), ("b", 3, 9), ("b", 4, 9)}),
    ],
)
def test_edits_are_applied_on_reading(
    spark: SparkSession,
    tmp_path: Path,
    edits: list[tuple[str | int, ...]],
    left: set[tuple[str, int, int]],
    handed: bool,
    inline: bool,
) -> None:
    """A segment of which nothing is left comes first: Spark must not take it for the end."""
    sizes = SizePolicy(handed_rows=10_000 if handed else 0)
    frame = spark.createDataFrame(ROWS, SCHEMA)
    gone, mine, plain = (
        segments.write(frame, place(tmp_path) / name, small=small)
        for name, small in (("gone", inline), ("mine", inline), ("plain", False))
    )
    assert gone is not None
    assert (gone.inline is not None) == inline
    assert mine is not None
    assert plain is not None
    for edit in (NO_A, NO_B):
        gone = edited(gone, *edit)
    for edit in edits:
        mine = edited(mine, *edit)
    found = State([gone, mine, plain]).read(spark, sizes=sizes)
    assert found is not None
    assert sorted(map(tuple, made(found).select("__query", "n", "__gen").collect())) == sorted([*left, *ROWS])


def test_leaving_again_leaves_one_edit(spark: SparkSession, tmp_path: Path) -> None:
    segment = segments.write(spark.createDataFrame(ROWS, SCHEMA), place(tmp_path) / "rows", small=True)
    state = State([segment])  # type: ignore[list-item]
    state.leave_out("a", 3)
    state.leave_out("a", 9)
    assert state.live[0].tags["edits"] == [["without", "a", 9]]


def test_sparks_tasks_leave_nothing_beside_their_files(spark: SparkSession, tmp_path: Path) -> None:
    segment = segments.write(spark.createDataFrame(ROWS, SCHEMA), place(tmp_path) / "rows", small=False)
    assert segment is not None
    assert segment.rows == len(ROWS)
    assert {f"data/rows/{file.name}" for file in (tmp_path / "data" / "rows").iterdir()} == set(segment.files)


@pytest.mark.parametrize("handed", [True, False])
def test_a_crowd_of_few_rows_becomes_one_segment(spark: SparkSession, tmp_path: Path, handed: bool) -> None:
    sizes = SizePolicy(handed_rows=10_000 if handed else 0)
    frame = spark.createDataFrame(ROWS, SCHEMA)
    crowd = [segments.write(frame, place(tmp_path) / f"{n}", small=True, prune_by="n") for n in range(3)]
    state = State([edited(crowd[0], "generation", 8), *crowd[1:]])  # type: ignore[arg-type, list-item]
    assert state.gather(list(state.live), place(tmp_path) / "gathered", "n", sizes) is handed
    assert len(state.live) == (1 if handed else 3)
    found = state.read(spark, sizes=sizes)
    assert found is not None
    assert sorted(map(tuple, made(found).select("__query", "n", "__gen").collect())) == sorted(
        [*((q, n, 8) for q, n, _ in ROWS), *ROWS, *ROWS]
    )
    assert (state.low, state.high) == (1, 4)


def test_what_travels_in_records_is_put_into_a_file_when_it_is_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a commit that has all state whole stays small, whatever comes."""
    monkeypatch.setattr(state_module, "MOST_INLINE", 2_000)
    state, here, most = State(), place(tmp_path), 0
    for number in range(100):
        table = pa.table({"n": pa.array([number] * 10, pa.int32())})
        state.append(segments.write_table(table, here / f"{number}", NUMBERS, "n"))
        crowd = state.crowded()
        if crowd:
            assert state.gather(crowd, here / f"gathered-{number}", "n")
        most = max(most, sum(segment.bytes for segment in state.live if segment.inline is not None))
        assert len(state.live) < 64
    assert 1_000 < most <= 2_000
    assert any(segment.files for segment in state.live)
    rows = sorted(n for segment in state.live for table in segment.tables() for n in table["n"].to_pylist())
    assert rows == [number for number in range(100) for _ in range(10)]


def test_rows_in_a_record_become_a_file_for_whoever_needs_one(tmp_path: Path) -> None:
    inline = segments.write_table(pa.table({"n": pa.array([3, 4], pa.int32())}), place(tmp_path) / "a", NUMBERS, "n")
    assert inline is not None
    assert not inline.files
    assert not inline.paths
    filed = segments.filed(edited(inline, "generation", 8), place(tmp_path) / "b")
    assert filed.tables() == inline.tables()
    assert (filed.low, filed.high, filed.rows, filed.tags["edits"]) == (3, 4, 2, [["generation", 8]])
    assert Path(filed.paths[0]).exists()


def test_marked_rows_are_rewritten_apart_and_with_all_their_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often: what was made of them is of use only as long as all of them are known."""
    monkeypatch.setattr(state_module, "FAN_IN", 3)
    here, made = place(tmp_path), []
    for number in range(8):
        table = pa.table({"n": pa.array([number], pa.int32())})
        made.append(segments.write_table(table, here / f"{number}", NUMBERS, "n"))
    rows = [segment for segment in made if segment is not None]
    state = State([*(marked(segment, "seen") for segment in rows[:5]), *rows[5:]])
    while crowd := state.crowded():
        assert len({*map(mark_of, crowd)}) == 1
        assert state.gather(crowd, here / f"gathered-{len(state.live)}", "n")
    assert len(state.live) < 4
    known = [segment for segment in state.live if mark_of(segment) == "seen"]
    assert weight(state.live, "seen") == weight(known, "seen") == 5
    assert sorted(n for s in known for table in s.tables() for n in table["n"].to_pylist()) == [*range(5)]
    assert weight([unmarked(segment) for segment in known], "seen") == 0
