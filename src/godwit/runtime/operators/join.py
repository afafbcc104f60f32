"""Join: pairs of rows with equal keys within a time band, found whenever the later of the two arrives."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from godwit.model.plan import QUERY, Join

#: since which epoch the row's region owns the instance; rows of one generation have met each other
GENERATION = "__gen"
#: the clock (microseconds) past which no partner can come any more
DIES = "__dies"


def with_death(frame: DataFrame, operator: Join, side: int) -> DataFrame:
    """Add when a row of that side (0: left, 1: right) may be forgotten."""
    if side == 0:
        last = F.unix_micros(F.col(operator.left_time)) + F.lit(operator.upper_us + operator.right_lag_us)
    else:
        last = F.unix_micros(F.col(operator.right_time)) + F.lit(-operator.lower_us + operator.left_lag_us)
    return frame.withColumn(DIES, last)


def pairs(left: DataFrame, right: DataFrame, operator: Join, parameters: DataFrame | None) -> DataFrame:
    """All pairs of a left and a right row that belong together, of the same query and generation.

    `parameters`: the parameter table, where the residual condition needs it.
    """
    other = right.withColumnRenamed(QUERY, "__q").withColumnRenamed(GENERATION, "__g").drop(DIES)
    conditions = [F.col(QUERY) == F.col("__q"), F.col(GENERATION) == F.col("__g")]
    for number, (left_sql, right_sql) in enumerate(operator.keys):
        left = left.withColumn(f"__k{number}", F.expr(left_sql))
        other = other.withColumn(f"__r{number}", F.expr(right_sql))
        conditions.append(F.col(f"__k{number}") == F.col(f"__r{number}"))
    apart = F.unix_micros(F.col(operator.right_time)) - F.unix_micros(F.col(operator.left_time))
    conditions += [apart >= F.lit(operator.lower_us), apart <= F.lit(operator.upper_us)]
    joined = left.join(other, _all(conditions), "inner")
    joined = joined.drop("__q", "__g", DIES, GENERATION, *_key_columns(operator))
    if operator.residual is None:
        return joined
    if parameters is None:
        return joined.where(operator.residual)
    return joined.join(F.broadcast(parameters), QUERY).where(operator.residual).drop(*_but_query(parameters))


def _all(conditions: list[Column]) -> Column:
    return reduce(lambda a, b: a & b, conditions)


def _key_columns(operator: Join) -> list[str]:
    return [f"__{side}{number}" for number in range(len(operator.keys)) for side in "kr"]


def _but_query(parameters: DataFrame) -> list[str]:
    return [name for name in parameters.columns if name != QUERY]
