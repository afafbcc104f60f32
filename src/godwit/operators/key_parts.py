"""Grouping without a shuffle: each task reads all files, and keeps the rows whose keys' hash is its own.

Where rows have been kept as they came (`deferred.py`), grouping before a shuffle makes hardly fewer of them, which are
then written, read and grouped once more. To read all files twice is cheaper; with many cores it would not be.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from godwit.engine.held import held
from godwit.engine.segments import rows_of
from godwit.storage.log import Segment
from godwit.storage.overlays import simple

#: each of them reads what all need
MOST = 2
#: equal values of these have equal hashes (those of a collation, or of a structure, need not)
HASHED = frozenset(("boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "string", "binary"))


def worth_parts(chosen: Sequence[Segment]) -> bool:
    """Whether most of the partials are single rows that lie in files."""
    return 2 * rows_of([segment for segment in chosen if not simple(segment)]) > rows_of(chosen)


def in_parts(rows: DataFrame, keys: Sequence[str]) -> list[DataFrame]:
    """The rows by their keys, a part for each core, in one partition each; all of them where there are many cores."""
    spark = rows.sparkSession
    count, types = spark.sparkContext.defaultParallelism, dict(rows.dtypes)
    if count > MOST or not keys or not all(types[key] in HASHED for key in keys):
        return [rows]
    # Held beside the code, the number of a part makes no other code of it.
    part = F.pmod(F.hash(*keys), F.lit(count))
    return [rows.where(part == held(spark, number).cast("int")).coalesce(1) for number in range(count)]
