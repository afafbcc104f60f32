"""Segments read so that their rows keep their order, for queries that answer each row (`protocol/session_order.py`).

Spark puts the files of one scan into partitions by their sizes, the largest first. So each large file is a scan of its
own, and small ones are read here, as rows in a record are; a union keeps the order of what it is made of, narrow
operators that of their rows, and files that tasks write are named by the number of their partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame, together
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.storage.log import Segment

#: segments with at least this number of rows get a scan of their own
SCANNED = 20_000


def read(spark: SparkSession, found: Sequence[Segment], sizes: SizePolicy = USUAL) -> Frame | None:
    """The rows of all the segments as one DataFrame, or None if there are no segments."""
    if not found:
        return None
    return segments.hand(spark, found, sizes=sizes) or together(_frames(spark, found))


def _frames(spark: SparkSession, found: Sequence[Segment]) -> Iterator[Frame]:
    for (schema, scanned), run in groupby(found, lambda one: (one.schema, bool(one.files) and one.rows >= SCANNED)):
        if scanned:
            for file in (file for segment in run for file in segment.paths):
                yield spark.read.schema(segments.struct(schema)).parquet(file)
        else:
            arrow = segments.arrow_of(schema)
            parts = [part.cast(arrow) for segment in run for part in segments.tables_of(segment)]
            yield LazyFrame.of(spark, pa.concat_tables(parts).combine_chunks(), segments.struct(schema))
