"""Drafts answer what the DataFrames they stand for answer, over any rows; Spark plans the same words once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType

from godwit.engine.lazy_frame import Frame, LazyFrame, joined, made, then, together
from godwit.engine.plan_cache import java_of

ARROW = pa.schema([("key", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("at", pa.timestamp("us", tz="UTC"))])


SCHEMA = from_arrow_schema(ARROW)


def table(*numbers: int | None) -> pa.Table:
    keys = [None if n is None else f"k{n % 3}" for n in numbers]
    halves = [None if n is None else n / 2 for n in numbers]
    return pa.table([keys, list(numbers), halves, list(numbers)], schema=ARROW)


def by_key(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(F.count("*").alias("rows"), F.sum("n").alias("n"))


def self_join(rows: Frame) -> Frame:
    other = rows.selectExpr("key AS k", "n AS m")
    return joined(rows, other, "key = k AND n < m").selectExpr("key", "n", "m")


ASKED: dict[str, Callable[[Frame], Frame]] = {
    "select": lambda rows: rows.selectExpr("key", "n + 1 AS n", "n / 0 AS nothing", "hour(at) AS hour"),
    "where": lambda rows: rows.where("n > 2 AND key IS NOT NULL").select("n", "key"),
    "drop": lambda rows: rows.drop("x", "unknown").coalesce(1),
    "union": lambda rows: together([rows.selectExpr("key", "n"), rows.selectExpr("n", "x"), rows.select("key")]),
    "join": self_join,
    "hash join": lambda rows: joined(
        rows.coalesce(1).selectExpr("key", "n"),
        rows.coalesce(1).selectExpr("key AS k", "x").hint("shuffle_hash"),
        "key = k",
    ),
    "aggregate": lambda rows: then("by key", by_key, rows.coalesce(1)),
    "aggregate in parts": lambda rows: then("by key", by_key, rows),
    "constant": lambda rows: then(
        "constant", lambda frame: frame.crossJoin(F.broadcast(frame.sparkSession.sql("SELECT 1 AS one"))), rows
    ),
}


def answer(frame: Frame) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in frame.toArrow().to_pylist()), key=repr)


@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_a_draft_answers_what_its_dataframe_answers_whatever_the_rows(
    spark: SparkSession, asked: Callable[[Frame], Frame]
) -> None:
    for rows in (table(1, 2, 3, 4, 7), table(5), table(*range(200)), table(None, 3), table()):
        draft = asked(LazyFrame.of(spark, rows, SCHEMA))
        frame = asked(spark.createDataFrame(rows, SCHEMA))
        assert isinstance(draft, LazyFrame)
        assert draft.columns == frame.columns
        assert draft.schema == made(draft).schema
        assert answer(draft) == answer(frame)


def test_the_same_words_are_planned_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(rows: pa.Table) -> Frame:
        return LazyFrame.of(spark, rows, SCHEMA).selectExpr("n * 31 AS n").where("n > 31")

    assert answer(words(table(1, 2, 3))) == [(62,), (93,)]
    monkeypatch.setattr(DataFrame, "selectExpr", _refuse)
    monkeypatch.setattr(LazyFrame, "frame", property(_refuse))
    assert answer(words(table(4, 5))) == [(124,), (155,)]


def _refuse(*_: object) -> None:
    msg = "this was planned before"
    raise AssertionError(msg)


def test_rows_of_the_same_columns_are_told_apart(spark: SparkSession) -> None:
    some, others, third = (LazyFrame.of(spark, rows, SCHEMA) for rows in (table(1, 2, 3), table(4, 5), table(9)))
    assert [n for (n,) in answer(together([some, others, third, some]).select("n"))] == [1, 1, 2, 2, 3, 3, 4, 5, 9]
    pairs = joined(some, others.selectExpr("key AS k", "n AS m"), "key = k").select("n", "m")
    assert answer(pairs) == [(1, 4), (2, 5)]
    both = together([pairs, joined(others, third.selectExpr("key AS k", "n AS m"), "n < m").select("n", "m")])
    assert answer(both) == [(1, 4), (2, 5), (4, 9), (5, 9)]


def test_plans_that_run_at_once_do_not_see_each_others_rows(spark: SparkSession) -> None:
    def squares(first: int) -> bool:
        rows = range(first, first + 1 + first % 7)
        draft = LazyFrame.of(spark, table(*rows), SCHEMA).where("n >= 0").selectExpr("n", "n * n AS square")
        return answer(draft) == sorted(((n, n * n) for n in rows), key=repr)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(squares, range(60)))


def test_few_rows_may_be_long_ones(spark: SparkSession) -> None:
    """Past this size Spark hands rows over as an RDD of its own."""
    name = "spark.sql.execution.arrow.localRelationThreshold"
    usual = spark.conf.get(name)
    spark.conf.set(name, "1b")
    try:
        for asked in (ASKED["where"], ASKED["hash join"], ASKED["aggregate in parts"]):
            rows = table(*range(50))
            draft = asked(LazyFrame.of(spark, rows, SCHEMA))
            assert answer(draft) == answer(asked(spark.createDataFrame(rows, SCHEMA)))
    finally:
        assert usual is not None
        spark.conf.set(name, usual)


def test_what_a_draft_cannot_remember_is_asked_of_its_dataframe_and_nobody_else_does_it(spark: SparkSession) -> None:
    draft = LazyFrame.of(spark, table(1, 2, 3, 4), SCHEMA)
    assert made(draft).groupBy("key").count().count() == 3
    with pytest.raises(AttributeError, match="groupBy"):
        draft.groupBy("key")  # type: ignore[attr-defined]


def test_values_that_change_are_columns_and_make_no_new_plan(spark: SparkSession) -> None:
    known = None
    for value in range(20, 24):
        rows = LazyFrame.of(spark, table(1, 2, 3), SCHEMA).where("n > 1")
        found = rows.with_column("v", LongType(), lambda t, v=value: pa.repeat(v, t.num_rows)).where("n < v")  # type: ignore[misc]
        assert answer(found.select("n", "v")) == [(2, value), (3, value)]
        assert known in (None, len(java_of(spark)._plans))
        known = len(java_of(spark)._plans)


def test_pairs_are_made_of_every_row_with_every_row(spark: SparkSession) -> None:
    rows, none = LazyFrame.of(spark, table(1, 2), SCHEMA).select("n"), LazyFrame.of(spark, table(), SCHEMA).select("n")
    two = LazyFrame.of(spark, table(7, 8), SCHEMA).selectExpr("n AS m")
    assert answer(rows.times(two)) == [(1, 7), (1, 8), (2, 7), (2, 8)]
    assert answer(none.times(two)) == []


def test_a_plan_that_reads_a_file_as_well_is_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    def with_file(frame: DataFrame) -> DataFrame:
        return frame.join(F.broadcast(spark.read.parquet(str(tmp_path / "names.parquet"))), "key")

    for name in ("one", "two"):
        pq.write_table(pa.table({"key": ["k1"], "name": [name]}), tmp_path / "names.parquet")
        draft = then(("names", name), with_file, LazyFrame.of(spark, table(1, 2), SCHEMA)).select("n", "name")
        assert answer(draft) == [(1, name)]


def test_old_plans_are_forgotten(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.engine.plan_cache.MOST", 5)
    for number in range(12):
        draft = LazyFrame.of(spark, table(1, 2), SCHEMA).selectExpr(f"n + {number} AS n").where("n > 2")
        assert answer(draft) == sorted(((n + number,) for n in (1, 2) if n + number > 2), key=repr)
    assert len(java_of(spark)._plans) == 5
