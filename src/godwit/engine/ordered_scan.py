"""One scan over many Parquet files whose tasks read them in the order given.

Spark's own scan puts files into partitions by their sizes, the largest first. Here every task is told what it reads:
consecutive parts of consecutive files, about as many bytes as the others'. `ordered_scan.java` says so to Spark,
through interfaces that it does not promise to keep: with another version of Spark, or on a cluster, there is no such
scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from godwit.engine.added_classes import added, java_class
from godwit.engine.direct import TESTED_WITH

_PACKAGE = "org.apache.spark.sql.execution.datasources"
CLASS = f"{_PACKAGE}.GodwitScan"
#: bytes that are worth a task of their own, and that one task reads at most
LEAST, MOST = 1 << 19, 1 << 27
_WITHOUT = "files that are to be read in order are scanned one by one"


def available(spark: SparkSession) -> bool:
    tested = pyspark.__version__.startswith(TESTED_WITH)
    return tested and added(spark, CLASS, _source(), f"{_PACKAGE}.FileIndex", _WITHOUT)


@cache
def _source() -> str:
    return Path(__file__).with_name("ordered_scan.java").read_text()


def scan(
    spark: SparkSession, schema: str, files: Sequence[tuple[str, int]], selects: Sequence[Sequence[str]] = ()
) -> DataFrame:
    """The rows of (path, bytes), in that order, and what SELECT lists make of them, the innermost first."""
    sizes = [size for _, size in files]
    parts = cut(sizes, tasks(sum(sizes), spark.sparkContext.defaultParallelism))
    told = (
        f"{task}\0{files[file][0]}\0{start}\0{length}"
        for task, mine in enumerate(parts)
        for file, start, length in mine
    )
    java = java_class(spark, CLASS)
    lists = "\1".join(map("\0".join, selects))
    return DataFrame(java.of(spark._jsparkSession, schema, "\0".join(told), lists), spark)


def tasks(size: int, cores: int) -> int:
    """How many tasks read so many bytes."""
    return max(min(cores, size // LEAST), -(-size // MOST), 1)


def cut(sizes: Sequence[int], count: int) -> list[list[tuple[int, int, int]]]:
    """What each task reads of files that are so large: (file, its first byte, bytes). They end where a file ends, if
    that is near: a file that is cut is opened twice."""
    ends = list(accumulate(sizes))
    total, share = ends[-1], ends[-1] // count
    found, low = [], 0
    for high in (total * number // count for number in range(1, count + 1)):
        near = min(ends, key=lambda end: abs(end - high))
        high = near if abs(near - high) <= share // 8 else high
        parts = [
            (file, first - (end - size), last - first)
            for file, (size, end) in enumerate(zip(sizes, ends, strict=True))
            if (first := max(low, end - size)) < (last := min(high, end))
        ]
        found += [parts] if parts else []
        low = high
    return found
