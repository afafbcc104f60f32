"""When rows entered the fleet, as a column. Their log says it once per entry; whoever reads it gets it with each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, together
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.model.plan import ARRIVED
from godwit.protocol.inputs import arrived_us
from godwit.storage.segment import Segment

_UTC = pa.timestamp("us", tz="UTC")
_MORE = StructType([StructField(ARRIVED, TimestampType())])


def arrived(rows: Segment, entered: float) -> Segment:
    """The rows of an entry that was written then."""
    return replace(rows, tags={**rows.tags, ARRIVED: arrived_us(entered)})


def read(spark: SparkSession, found: Sequence[Segment], sizes: SizePolicy = USUAL) -> Frame | None:
    """The rows of all the segments, with that column."""
    if not found:
        return None
    handed = segments.hand(spark, found, _with_column, _MORE, sizes)
    if handed is not None:
        return handed
    by_time: dict[int, list[Segment]] = {}
    for segment in found:
        by_time.setdefault(segment.tags[ARRIVED], []).append(segment)
    frames = []
    for at, alike in by_time.items():
        rows = segments.read(spark, alike, sizes)
        assert rows is not None
        frames.append(rows.selectExpr("*", f"timestamp_micros({at}L) AS {ARRIVED}"))
    return together(frames)


def _with_column(table: pa.Table, segment: Segment) -> pa.Table:
    times = pa.repeat(pa.scalar(segment.tags[ARRIVED], pa.int64()), table.num_rows).cast(_UTC)
    return table.append_column(ARRIVED, times)
