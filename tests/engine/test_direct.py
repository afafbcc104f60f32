"""Direct plans give the answers and the errors that jobs give, from many threads, and keep nothing."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from godwit.engine import direct, plan_cache
from godwit.engine.direct import DirectEngine, self_test, wanted_mode
from godwit.engine.lazy_frame import Frame, LazyFrame, joined, then
from godwit.engine.plan_cache import Java, java_of
from godwit.errors import ConfigError

ARROW = pa.schema([("key", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
SCHEMA = from_arrow_schema(ARROW)


def rows(spark: SparkSession, numbers: range) -> LazyFrame:
    table = pa.table([[f"k{n % 5}" for n in numbers], list(numbers), list(numbers)], schema=ARROW)
    return LazyFrame.of(spark, table, SCHEMA)


def sums(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(F.sum("n").alias("n"), F.count("*").alias("rows"))


def answer(frame: Frame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def test_they_are_on_and_take_part(spark: SparkSession) -> None:
    frame = then("direct sums", sums, rows(spark, range(200)).coalesce(1))
    assert isinstance(frame, LazyFrame)
    assert frame._prepared()._direct is not None
    assert answer(frame) == sorted(map(repr, frame.frame.toArrow().to_pylist()))


def test_a_plan_that_shuffles_goes_the_ordinary_way(spark: SparkSession) -> None:
    frame = then("wide sums", lambda one: sums(one.repartition(2, "key")), rows(spark, range(50)))
    assert isinstance(frame, LazyFrame)
    assert frame._prepared()._direct is None
    assert len(answer(frame)) == 5


def test_threads_that_run_one_plan_at_once_have_a_copy_each(spark: SparkSession) -> None:
    def ask(n: int) -> list[str]:
        left, right = rows(spark, range(n)).coalesce(1), rows(spark, range(0, n, 2)).coalesce(1)
        pairs = joined(left, right.selectExpr("key AS k", "n AS m").hint("shuffle_hash"), "key = k AND n <= m")
        return answer(then("sorted sums", lambda one: sums(one.sortWithinPartitions("at")), pairs))

    alone = {n: ask(n) for n in range(10, 60, 5)}
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(ask, list(alone) * 4))
    assert together == list(alone.values()) * 4


def test_an_error_of_the_plan_surfaces_and_the_next_run_is_right(spark: SparkSession) -> None:
    frame = rows(spark, range(10)).selectExpr("key", "IF(n = 7, raise_error('seven'), n) AS n")
    assert frame._prepared()._direct is not None
    with pytest.raises(PySparkException, match="seven"):
        frame.toArrow()
    good = rows(spark, range(5)).selectExpr("key", "IF(n = 7, raise_error('seven'), n) AS n")
    assert good._prepared() is frame._prepared()
    assert len(answer(good)) == 5


def test_the_memory_of_a_run_is_released(spark: SparkSession) -> None:
    engine = java_of(spark).direct
    assert engine is not None
    before = engine._memory.executionMemoryUsed()
    for n in range(30):
        answer(then("released sums", sums, rows(spark, range(n, n + 500)).coalesce(1)))
    with pytest.raises(PySparkException):
        rows(spark, range(10)).selectExpr("raise_error('x') AS n").toArrow()
    assert engine._memory.executionMemoryUsed() <= before


def test_the_self_test_finds_a_difference(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = DirectEngine(spark)
    assert self_test(spark, engine) == ""
    honest = direct.DirectPlan.run
    monkeypatch.setattr(direct.DirectPlan, "run", lambda *given: honest(*given).slice(1))
    assert self_test(spark, engine) == "answers differ"
    monkeypatch.setattr(direct, "TESTED_WITH", "9.9.")
    assert "9.9." in self_test(spark, engine)


def test_a_difference_switches_them_off_with_one_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plan_cache, "self_test", lambda *_: "answers differ")
    with caplog.at_level(logging.WARNING):
        assert Java(spark).direct is None
    assert [record.getMessage() for record in caplog.records] == [
        "direct plans are off, small micro-batches run as Spark jobs: answers differ"
    ]
    monkeypatch.setenv("GODWIT_ENGINE", "direct")
    with pytest.raises(ConfigError, match="answers differ"):
        Java(spark)


def test_the_environment_chooses(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GODWIT_ENGINE", "jobs")
    assert Java(spark).direct is None
    monkeypatch.setenv("GODWIT_ENGINE", "fast")
    with pytest.raises(ConfigError, match="auto, direct, jobs"):
        wanted_mode()
