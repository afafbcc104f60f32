"""Numbers that change with every micro-batch are no part of the code that Spark makes of a plan."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.engine.held import available, held, within

FAR = 2**62


def session_of(spark: SparkSession, compiled: bool) -> SparkSession:
    made = spark.newSession()
    made.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    made.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if compiled else "NO_CODEGEN")
    return made


def code(frame: DataFrame) -> str:
    java: Any = frame.sparkSession._jvm
    told = java.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "codegen")  # type: ignore[attr-defined]
    return str(told).split("Generated code:", 1)[1]


def test_the_code_is_the_same_whatever_the_number(spark: SparkSession) -> None:
    session = session_of(spark, compiled=True)
    rows = session.range(10)
    assert available(session)
    assert code(rows.where(F.col("id") >= held(session, 3))) == code(rows.where(F.col("id") >= held(session, 7)))
    assert code(rows.where("id >= 3")) != code(rows.where("id >= 7")), "it need not be held any more"


@pytest.mark.parametrize("compiled", [True, False])
def test_it_counts_as_the_number_it_is(spark: SparkSession, compiled: bool) -> None:
    session = session_of(spark, compiled)
    rows = session.range(10)
    assert [row.id for row in within(rows, "id", 3, 6).collect()] == [3, 4, 5]
    assert within(rows, "id", -FAR, FAR).count() == 10
    assert within(rows, "id + NULL", -FAR, FAR).count() == 0
    several = rows.withColumn("__low", held(session, 2)).withColumn("__high", held(session, FAR))
    kept = several.where("id >= __low AND id < __high").groupBy("__low").agg(F.sum("id").alias("total"))
    assert [tuple(row) for row in kept.collect()] == [(2, 44)]
    assert several.schema["__low"].dataType.simpleString() == "bigint"
    pairs = rows.join(several.select(F.col("id").alias("other"), "__low"), F.expr("id = other AND id < __low"))
    assert sorted(row.id for row in pairs.collect()) == [0, 1]
