"""Join: pairs of rows with equal keys within a time band."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from godwit.model.plan import DEVICE, GENERATION, MEETING, QUERY, Join


def pairs(
    left: DataFrame, right: DataFrame, operator: Join, *, one_query: bool = False, meetings: bool = False
) -> DataFrame:
    """All pairs of a left and a right row that belong together, of the same query and generation.

    `one_query`: all rows are of one query. Equality of generations is written so that Spark does not hash by it: nearly
    all rows have the same, and a join by one number is much faster than one by several columns. `meetings`: rows meet
    those with the same number only. All is written as SQL: Column objects cost a round trip to Java each.
    """
    keys = range(len(operator.keys))
    ours = left.selectExpr("*", *(f"{sql} AS __k{n}" for n, (sql, _) in enumerate(operator.keys))).drop(DEVICE)
    theirs = right.selectExpr("*", *(f"{sql} AS __r{n}" for n, (_, sql) in enumerate(operator.keys))).drop(DEVICE)
    theirs = theirs.withColumnsRenamed({QUERY: "__q", GENERATION: "__g", MEETING: "__m"})
    apart = f"unix_micros(`{operator.right_time}`) - unix_micros(`{operator.left_time}`)"
    conditions = [
        f"{GENERATION} - __g = 0",
        *([] if one_query else [f"{QUERY} = __q"]),
        *([f"{MEETING} = __m"] if meetings else []),
        *(f"__k{n} = __r{n}" for n in keys),
        f"{apart} >= {operator.lower_us}",
        f"{apart} <= {operator.upper_us}",
    ]
    ended = ("__q", "__g", "__m", GENERATION, MEETING, *(f"__{side}{n}" for n in keys for side in "kr"))
    return ours.join(theirs, F.expr(" AND ".join(conditions)), "inner").drop(*ended)
