"""Direct plans give the answers and the errors that jobs give, from many threads, and keep nothing."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from godwit.engine import direct, plan_cache, plan_company
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


def test_plans_over_the_same_rows_run_in_one_call(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    honest = direct.run_together

    def counted(plans: list[direct.DirectPlan], *given: object) -> list[pa.Table | None]:
        calls.append(len(plans))
        return honest(plans, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_company, "run_together", counted)

    def ask(numbers: range, *texts: str) -> list[list[str]]:
        shared = rows(spark, numbers).in_company()
        return [answer(shared.where(text).selectExpr("n", f"n * {k} AS m")) for k, text in enumerate(texts)]

    few, other = ("n % 2 = 0", "n > 3", "n < 0"), ("n % 2 = 0", "n = 5")
    for numbers, texts, expected in (
        (range(10), few, [1, 1, 1]),
        (range(20), few, [3]),
        (range(5, 9), other, [3, 1]),  # (the first has all run along that were where it was)
        (range(30), other, [2]),
        (range(40), few, [2, 2]),  # (the second and the third have both missed the rows before)
    ):
        calls.clear()
        assert ask(numbers, *texts) == [
            answer(rows(spark, numbers).where(text).selectExpr("n", f"n * {k} AS m")) for k, text in enumerate(texts)
        ]
        assert calls == expected


def test_a_plan_that_fails_fails_for_whoever_wants_it(spark: SparkSession) -> None:
    def ask(numbers: range) -> tuple[LazyFrame, LazyFrame]:
        shared = rows(spark, numbers).in_company()
        return shared.selectExpr("n + 1 AS n"), shared.selectExpr("IF(n = 7, raise_error('seven'), n) AS n")

    for numbers in (range(5), range(6)):
        assert [len(answer(frame)) for frame in ask(numbers)] == [len(numbers)] * 2
    good, bad = ask(range(10))
    assert len(answer(good)) == 10
    with pytest.raises(PySparkException, match="seven"):
        bad.toArrow()
    assert [len(answer(frame)) for frame in ask(range(4))] == [4, 4]


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


def test_many_rows_are_compiled_and_few_interpreted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "INTERPRETED", 100)

    def ask(numbers: range) -> LazyFrame:
        pairs = joined(
            rows(spark, numbers).coalesce(1),
            rows(spark, numbers).selectExpr("key AS k", "n AS m", "at AS then").coalesce(1).hint("shuffle_hash"),
            "key = k AND m BETWEEN n AND n + 7",
        )
        frame = then("tiered sums", sums, pairs)
        assert isinstance(frame, LazyFrame)
        return frame

    few, many = ask(range(20)), ask(range(300))
    plan = few._prepared()._direct
    assert plan is not None
    for frame, copies in ((few, [1, 0]), (many, [1, 1]), (few, [1, 1])):
        assert answer(frame) == sorted(map(repr, frame.frame.toArrow().to_pylist()))
        assert [len(plan._free[compiled]) for compiled in (False, True)] == copies


def test_rows_of_every_type_come_out_as_they_went_in(spark: SparkSession) -> None:
    table = pa.table(
        {
            "a": pa.array([None, "", "ä\0b"], pa.string()),
            "b": pa.array([b"x", None, b""], pa.binary()),
            "c": pa.array([1.5, float("nan"), None], pa.float64()),
            "d": pa.array([None, Decimal("1.20"), Decimal("-7.00")], pa.decimal128(12, 2)),
            "e": pa.array([[1, None], [], None], pa.list_(pa.int32())),
            "f": pa.array([{"x": 1, "y": "k"}, None, {"x": None, "y": None}]),
            "g": pa.array([True, None, False]),
            "h": pa.array([date(2024, 2, 29), None, date(1900, 1, 1)]),
            "i": pa.array([0, None, -1], pa.timestamp("us", tz="UTC")),
            "j": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    frame = LazyFrame.of(spark, table, from_arrow_schema(table.schema)).selectExpr("*", "1 AS one")
    assert frame._prepared()._direct is not None
    assert repr(frame.toArrow().drop_columns(["one"]).to_pylist()) == repr(table.to_pylist())
    assert frame.toArrow().num_rows == 3
    nothing = LazyFrame.of(spark, table.slice(0, 0), from_arrow_schema(table.schema)).selectExpr("*", "1 AS one")
    assert nothing.toArrow().num_rows == 0
