"""One scan reads many files in their order: every byte once, a task about as much as another."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from godwit.engine import in_order, ordered_scan, segments
from godwit.engine.ordered_scan import LEAST, MOST, cut, tasks
from godwit.engine.size_policy import Execution, SizePolicy
from godwit.storage.log import Segment
from godwit.storage.place import Place
from godwit.storage.store import Store

SCHEMA = (
    '{"fields":[{"metadata":{},"name":"n","nullable":true,"type":"long"},'
    '{"metadata":{},"name":"name","nullable":true,"type":"string"}],"type":"struct"}'
)
BEFORE = '{"fields":[{"metadata":{},"name":"n","nullable":true,"type":"long"}],"type":"struct"}'
LARGE = SizePolicy.forced(Execution.LARGE)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=20), st.integers(1, 8))
def test_every_byte_is_read_once_and_in_order(sizes: list[int], count: int) -> None:
    found = cut(sizes, count)
    assert 1 <= len(found) <= count
    assert all(found)
    at = dict.fromkeys(range(len(sizes)), 0)
    parts = [part for task in found for part in task]
    assert parts == sorted(parts)
    for file, start, length in parts:
        assert (start, length > 0) == (at[file], True)
        at[file] += length
    assert list(at.values()) == sizes
    share = sum(sizes) / count
    assert max(sum(length for _, _, length in task) for task in found) <= 1.25 * share + 2


def test_files_of_about_one_size_are_not_cut() -> None:
    assert cut([100, 104, 97, 99], 2) == [[(0, 0, 100), (1, 0, 104)], [(2, 0, 97), (3, 0, 99)]]
    assert cut([300], 2) == [[(0, 0, 150)], [(0, 150, 150)]]


def test_as_many_tasks_as_cores_unless_the_bytes_are_few_or_very_many() -> None:
    assert [tasks(size, 4) for size in (10, 3 * LEAST, 100 * LEAST, 10 * MOST)] == [1, 3, 4, 10]


def written(folder: Path, sizes: list[int]) -> list[tuple[str, int]]:
    """Files of several row groups each; a path with what must not be taken for a pattern or a code."""
    found, first = [], 0
    for number, rows in enumerate(sizes):
        names = [f"row {n}" for n in range(first, first + rows)]
        file = folder / f"a b%20[{number}].parquet"
        pq.write_table(pa.table({"n": range(first, first + rows), "name": names}), file, row_group_size=7_000)
        found.append((str(file), file.stat().st_size))
        first += rows
    return found


def test_rows_keep_their_order_through_a_filter_and_a_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ordered_scan.available(spark)
    monkeypatch.setattr(ordered_scan, "LEAST", 100_000)
    sizes = [20_000, 500, 90_000, 60_000]
    rows = ordered_scan.scan(spark, SCHEMA, written(tmp_path, sizes))
    tasks_run = rows._jdf.queryExecution().toRdd().getNumPartitions()  # type: ignore[attr-defined]
    assert tasks_run == spark.sparkContext.defaultParallelism
    assert rows.count() == sum(sizes)
    kept = segments.write(rows.where("n % 3 = 1").select("name"), Place(Store.local(tmp_path), "kept"), small=False)
    assert kept is not None
    assert len(kept.files) > 1
    again = [name for part in kept.tables() for name in part["name"].to_pylist()]
    assert again == [f"row {n}" for n in range(1, sum(sizes), 3)]


def test_it_is_one_scan_that_reads_what_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    rows = ordered_scan.scan(spark, SCHEMA, written(tmp_path, [20_000, 30_000])).where("n < 100").select("n")
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1
    assert "ReadSchema: struct<n:bigint>" in plan
    assert "LessThan(n,100)" in plan
    assert rows.toArrow()["n"].to_pylist() == list(range(100))


@pytest.mark.parametrize("there", [True, False])
def test_small_and_large_segments_come_in_order_with_and_without_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(ordered_scan, "available", lambda spark: there)
    store, first, found = Store.local(tmp_path), 0, list[Segment]()
    for number, count in enumerate([25_000, 3, 21_000, 90_000, 40]):
        table = pa.table({"n": range(first, first + count), "name": ["x"] * count})
        made = segments.write_table(table, Place(store, f"rows-{number}"), SCHEMA, in_file=number != 1)
        assert made is not None
        found.append(made)
        first += count
    rows = in_order.read(spark, found, LARGE)
    assert rows is not None
    assert rows.toArrow()["n"].to_pylist() == list(range(first))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("lacking", [False, True])
def test_select_lists_that_are_known_together_make_what_each_makes_of_the_last(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, lacking: bool
) -> None:
    """Also where one segment is from before a column was added, and its list can be applied to both together only."""
    monkeypatch.setattr(ordered_scan, "available", lambda spark: there)
    store, found = Store.local(tmp_path), list[Segment]()
    for number, schema in enumerate([BEFORE if lacking else SCHEMA, SCHEMA]):
        table = pa.table({"n": [number, 10], "name": ["x", "y"]}).select(segments.struct(schema).names)
        made = segments.write_table(table, Place(store, f"rows-{number}"), schema, in_file=True)
        assert made is not None
        found.append(made)
    lists = [("`n` AS `a n`", "name"), ("*", "upper(name) || '1' AS name1"), ("`a n` * 2", "name1", "'q' AS q")]
    rows = segments.read(spark, found, LARGE, lists)
    assert rows is not None
    assert rows.columns == ["(a n * 2)", "name1", "q"]
    first = None if lacking else "X1"
    again = None if lacking else "Y1"
    assert sorted(map(tuple, rows.collect()), key=str) == sorted(  # type: ignore[attr-defined]
        [(0, first, "q"), (20, again, "q"), (2, "X1", "q"), (20, "Y1", "q")], key=str
    )
