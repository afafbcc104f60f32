"""When rows entered the fleet, as a column: the log says it once per entry, a reader gets it with each row.

It also says of an entry which devices had rows in it from before what they had promised: rows that came too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType, TimestampType

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, together
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.model.plan import ARRIVED, LATE, Stream
from godwit.protocol.inputs import arrived_us
from godwit.storage.segment import Segment

_UTC = pa.timestamp("us", tz="UTC")
_MORE = StructType([StructField(ARRIVED, TimestampType())])


def arrived(rows: Segment, entered: float, late: Mapping[str, int] | None = None) -> Segment | None:
    """The rows of an entry that was written then. `late`: of those only the ones that are older than what their device
    had promised (microseconds); None is returned if there are none."""
    if late is not None and not late:
        return None
    more = {} if late is None else {LATE: dict(late)}
    return replace(rows, tags={**rows.tags, ARRIVED: arrived_us(entered), **more})


def read(spark: SparkSession, found: Sequence[Segment], stream: Stream, sizes: SizePolicy = USUAL) -> Frame | None:
    """The rows of all the segments, with that column."""
    if not found:
        return None
    handed = segments.hand(spark, found, partial(_revised, stream), _MORE, sizes)
    if handed is not None:
        return handed
    frames = []
    for segment in found:
        rows = segments.read(spark, [segment], sizes)
        assert rows is not None
        if LATE in segment.tags:
            rows = rows.where(_condition(stream, segment.tags[LATE]))
        frames.append(rows.selectExpr("*", f"timestamp_micros({segment.tags[ARRIVED]}L) AS {ARRIVED}"))
    return together(frames)


def _revised(stream: Stream, table: pa.Table, segment: Segment) -> pa.Table:
    late = segment.tags.get(LATE)
    if late is not None:
        names = table.column(stream.device).cast(pa.string()).to_pylist() if stream.device else None
        times = segments.micros(table.column(stream.time)).to_pylist()
        whole = next(iter(late.values()))
        bounds = [whole] * len(times) if names is None else [late.get(name) for name in names]
        table = table.filter(pa.array([b is not None and at < b for at, b in zip(times, bounds, strict=True)]))
    arrivals = pa.repeat(pa.scalar(segment.tags[ARRIVED], pa.int64()), table.num_rows).cast(_UTC)
    return table.append_column(ARRIVED, pc.cast(arrivals, _UTC))


def _condition(stream: Stream, late: Mapping[str, int]) -> str:
    time = f"unix_micros(`{stream.time}`)"
    if stream.device is None:
        return f"{time} < {next(iter(late.values()))}L"
    quoted = ((name.replace("\\", "\\\\").replace("'", "\\'"), bound) for name, bound in late.items())
    cases = " ".join(f"WHEN '{name}' THEN {bound}L" for name, bound in quoted)
    return f"{time} < CASE CAST(`{stream.device}` AS string) {cases} END"
