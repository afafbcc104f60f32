"""Join: pairs of rows with equal keys within a time band."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from godwit.model.plan import DEVICE, QUERY, Join

#: since which epoch the row's region owns the instance; rows of one generation have met each other
GENERATION = "__gen"


def pairs(left: DataFrame, right: DataFrame, operator: Join, *, one_query: bool = False) -> DataFrame:
    """All pairs of a left and a right row that belong together, of the same query and generation.

    `one_query`: all rows are of one query. Equality of generations is written so that Spark does not hash by it: nearly
    all rows have the same, and a join by one number is much faster than one by several columns.
    """
    left = left.drop(DEVICE)
    other = right.drop(DEVICE).withColumnRenamed(QUERY, "__q").withColumnRenamed(GENERATION, "__g")
    conditions = [F.col(GENERATION) - F.col("__g") == 0]
    if not one_query:
        conditions.append(F.col(QUERY) == F.col("__q"))
    keys = []
    for number, (left_sql, right_sql) in enumerate(operator.keys):
        left = left.withColumn(f"__k{number}", F.expr(left_sql))
        other = other.withColumn(f"__r{number}", F.expr(right_sql))
        conditions.append(F.col(f"__k{number}") == F.col(f"__r{number}"))
        keys += [f"__k{number}", f"__r{number}"]
    apart = F.unix_micros(F.col(operator.right_time)) - F.unix_micros(F.col(operator.left_time))
    conditions += [apart >= F.lit(operator.lower_us), apart <= F.lit(operator.upper_us)]
    return left.join(other, _all(conditions), "inner").drop("__q", "__g", GENERATION, *keys)


def _all(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions)
