"""Segments read so that their rows keep their order, for queries that answer each row (`protocol/session_order.py`).

Large files are read by one scan that keeps their order (`ordered_scan.py`) or, where there is none, by a scan each;
small ones are read here, as rows in a record are. A union keeps the order of what it is made of, narrow operators that
of their rows, and files that tasks write are named by the number of their partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from godwit.engine import ordered_scan, segments
from godwit.engine.lazy_frame import Frame, LazyFrame, together
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.storage.log import Segment

#: a segment of so many rows is read by tasks
SCANNED = 20_000


def read(
    spark: SparkSession, found: Sequence[Segment], sizes: SizePolicy = USUAL, selects: Sequence[Sequence[str]] = ()
) -> Frame | None:
    """The rows of all the segments as one DataFrame, or None if there are no segments; see `segments.read`."""
    if not found:
        return None
    if segments.lie_alike(found) and ordered_scan.available(spark):
        return segments.read(spark, found, sizes, selects)  # (one scan, which keeps their order)
    frame = segments.hand(spark, found, sizes=sizes) or together(_frames(spark, found))
    return segments.selected(frame, selects)


def _frames(spark: SparkSession, found: Sequence[Segment]) -> Iterator[Frame]:
    for (schema, scanned), run in groupby(found, lambda one: (one.schema, bool(one.files) and one.rows >= SCANNED)):
        if scanned:
            yield from _scans(spark, schema, list(run))
        else:
            arrow = segments.arrow_of(schema)
            parts = [part.cast(arrow) for segment in run for part in segments.tables_of(segment)]
            yield LazyFrame.of(spark, pa.concat_tables(parts).combine_chunks(), segments.struct(schema))


def _scans(spark: SparkSession, schema: str, found: Sequence[Segment]) -> Iterator[DataFrame]:
    if ordered_scan.available(spark):
        yield segments.scan(spark, found)
    else:
        for path in (path for segment in found for path in segment.paths):
            yield spark.read.schema(segments.struct(schema)).parquet(path)
