"""Numbers that change with every micro-batch, in plans over many rows.

A number that is written into a plan becomes part of the code that Spark makes of it: with another one Spark compiles
all of that code again, and Java begins to learn it anew, in each micro-batch. Such a number is held by the plan
instead, beside the code, and read from there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from godwit.engine.added_classes import added, java_class
from godwit.engine.direct import TESTED_WITH

_PACKAGE = "org.apache.spark.sql.catalyst.expressions"
CLASS = f"{_PACKAGE}.GodwitHeld"
_WITHOUT = "plans over many rows are compiled in each micro-batch"


def held(spark: SparkSession, value: int) -> Column:
    """The number as a column (bigint)."""
    if not available(spark):
        return F.lit(value).cast("bigint")
    return ClassicColumn(java_class(spark, CLASS).of(value))


def within(frame: DataFrame, micros: str, low: int, high: int) -> DataFrame:
    """Rows from `low` up to and without `high`, by an expression."""
    at = F.expr(micros)
    return frame.where((at >= held(frame.sparkSession, low)) & (at < held(frame.sparkSession, high)))


def available(spark: SparkSession) -> bool:
    tested = pyspark.__version__.startswith(TESTED_WITH)
    return tested and added(spark, CLASS, _source(), f"{_PACKAGE}.LeafExpression", _WITHOUT)


@cache
def _source() -> str:
    return Path(__file__).with_name("held.java").read_text()
