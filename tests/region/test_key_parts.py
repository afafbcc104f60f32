"""Rows in parts by their keys: each row in one part, all of a key in the same one, and grouped without a shuffle."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from godwit.model.plan import QUERY, WINDOW_END, WINDOW_START, Aggregate, AggregateCall, Window
from godwit.operators import key_parts
from godwit.operators.aggregate import merge, results
from godwit.operators.key_parts import in_parts, worth_parts
from godwit.storage.log import Segment
from godwit.storage.overlays import edited

SIZE = 10_000_000
CALLS = (AggregateCall("n", "count", None), AggregateCall("s", "sum", "v"))
NODE = Aggregate((0,), Window("ts", SIZE, SIZE), ("k", "name"), CALLS)
STARTS = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 10)]
COLUMNS = (
    f"{QUERY} string, k bigint, name string, {WINDOW_START} timestamp, {WINDOW_END} timestamp, n__0 bigint, s__0 bigint"
)


@pytest.mark.parametrize("only", [None, "q"])
def test_parts_give_the_groups_that_the_whole_gives(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, only: str | None
) -> None:
    monkeypatch.setattr(key_parts, "MOST", 64)
    rows = [
        ("q" if only or n % 3 else "p", n % 7 or None, "ab"[n % 2] * (n % 5), STARTS[n % 2], STARTS[1], 1, n or None)
        for n in range(400)
    ]
    frame = spark.createDataFrame(rows, COLUMNS).repartition(3)
    parts = in_parts(frame, NODE.keys)
    assert len(parts) == spark.sparkContext.defaultParallelism > 1
    assert sorted(map(str, frame.collect())) == sorted(str(row) for part in parts for row in part.collect())
    groups = [{(row.k, row.name) for row in part.collect()} for part in parts]
    assert sum(map(len, groups)) == len(set.union(*groups))
    whole, grouped = (results(merge(x, NODE, only=only), NODE) for x in (frame, parts))
    assert sorted(map(str, whole.collect())) == sorted(map(str, grouped.collect()))
    assert "hashpartitioning" not in grouped._jdf.queryExecution().executedPlan().toString()  # type: ignore[attr-defined]


def test_keys_whose_equal_values_may_have_other_hashes_stay_in_one(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1D AS f, 'a' COLLATE UTF8_LCASE AS c, struct(1) AS s, 'a' AS t")
    for keys in (["f"], ["c"], ["s"], ["t", "c"], []):
        assert in_parts(frame, keys) == [frame]


def test_many_cores_do_not_all_read_everything(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_parts, "MOST", 1)
    frame = spark.sql("SELECT 1 AS k")
    assert in_parts(frame, ["k"]) == [frame]


def test_partials_that_were_grouped_are_few_enough_for_a_shuffle() -> None:
    grouped = Segment(("a",), 10, 1, "")
    kept = edited(Segment(("b",), 11, 1, ""), "select", "k")
    assert worth_parts([grouped, kept])
    assert not worth_parts([grouped, grouped, kept])
    assert not worth_parts([])
