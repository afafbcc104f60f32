"""Rows of many segments, small and large, in files and in records, keep their order through Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.engine import in_order, segments
from godwit.engine.size_policy import Execution, SizePolicy
from godwit.storage.log import Segment
from godwit.storage.place import Place
from godwit.storage.store import Store

#: rows of segments: Spark would begin with the largest
SIZES = [3, 25_000, 40, 60_000, 20_000, 500, 90_000]


def written(store: Store, sizes: list[int]) -> list[Segment]:
    found, first = [], 0
    for number, rows in enumerate(sizes):
        table = pa.table({"n": pa.array(range(first, first + rows), pa.int64())})
        made = segments.write_table(table, Place(store, f"rows-{number}"), SCHEMA, in_file=number % 3 > 0)
        assert made is not None
        found.append(made)
        first += rows
    return found


SCHEMA = '{"fields":[{"metadata":{},"name":"n","nullable":true,"type":"long"}],"type":"struct"}'
LARGE = SizePolicy.forced(Execution.LARGE)


def test_rows_come_in_the_order_of_their_segments(spark: SparkSession, tmp_path: Path) -> None:
    store = Store.local(tmp_path)
    rows = in_order.read(spark, written(store, SIZES), LARGE)
    assert rows is not None
    kept = segments.write(rows.where("n % 2 = 1"), Place(store, "odd"), small=False)
    assert kept is not None
    assert len(kept.files) > 1
    again = in_order.read(spark, [kept], LARGE)
    assert again is not None
    assert again.toArrow()["n"].to_pylist() == list(range(1, sum(SIZES), 2))


def test_one_scan_of_all_would_not_keep_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = segments.read(spark, written(Store.local(tmp_path), SIZES), LARGE)
    assert rows is not None
    numbers = rows.toArrow()["n"].to_pylist()
    assert sorted(numbers) == list(range(sum(SIZES)))
    if numbers == sorted(numbers):
        pytest.fail("Spark has kept the order: `in_order` is not needed")
