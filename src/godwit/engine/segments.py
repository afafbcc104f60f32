"""Between DataFrames and segments: how rows are written, and how segments are read again.

Few rows become part of the record that names them; more go through Arrow and one pyarrow file (60-100 ms less than
Spark's writer); large results are written by Spark's tasks and never pass through the driver.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StructType, TimestampType

from godwit.engine import ordered_scan
from godwit.engine.file_frame import FileFrame
from godwit.engine.lazy_frame import Frame, LazyFrame, made, together
from godwit.engine.local_files import file_system
from godwit.engine.plan_cache import json_of, remembered
from godwit.engine.size_policy import USUAL, SizePolicy
from godwit.model.plan import Column
from godwit.storage.by_query import ROWS, by_query
from godwit.storage.inline import InlineRows
from godwit.storage.log import Segment
from godwit.storage.place import Place

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: how Spark's tasks write: straight into the folder (the commit says what counts), without checksum files beside, and
#: (`file_system`) without processes that set permissions
WRITER = {
    "fs.file.impl.disable.cache": "true",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


#: frames of the newest rows of sources, each of less than 64 kB a segment
SHARED = 32
_shared: OrderedDict[tuple[object, ...], tuple[Sequence[Segment], LazyFrame]] = OrderedDict()
_sharing = threading.Lock()


def write(frame: Frame, path: Place, *, small: bool, prune_by: str | None = None) -> Segment | None:
    """Run the DataFrame and keep its rows under `path`; None if there were none. `prune_by`: a column of time."""
    if small:
        return write_table(frame.toArrow(), path, schema_of(frame), prune_by)
    rows = made(frame)
    rows.write.mode("overwrite").options(**_options(rows)).parquet(path.path)
    return _written_by_spark(path, schema_of(frame), prune_by)


def _options(frame: DataFrame) -> dict[str, str]:
    """Numbers of many values, times above all, are written as they are: a dictionary of them is tried and given up."""
    numbers = (f.name for f in frame.schema.fields if isinstance(f.dataType, LongType | TimestampType | DoubleType))
    files = {**WRITER, "fs.file.impl": file_system(frame.sparkSession)}
    return {**files, **{f"parquet.enable.dictionary#{name}": "false" for name in numbers}}


def write_table(
    table: pa.Table,
    path: Place,
    schema: str,
    prune_by: str | None = None,
    row_groups: Sequence[int] = (),
    *,
    in_file: bool = False,
) -> Segment | None:
    """Keep an Arrow table as a segment: in the record if its rows are few, unless they are to lie `in_file`.
    `row_groups`: how many rows go into each (default: as many as fit)."""
    if table.num_rows == 0:
        return None
    low, high = (None, None) if prune_by is None else _bounds(table.column(prune_by))
    inline = None if in_file else InlineRows.of(table)
    if inline is not None:
        return Segment((), table.num_rows, len(inline.data), schema, low, high, inline=inline, store=path.store)
    file = f"{path.reference}.parquet"
    size, checksum = path.store.put_table(file, table, row_groups)
    return Segment((file,), table.num_rows, size, schema, low, high, sums=(checksum,), store=path.store)


def filed(segment: Segment, path: Place) -> Segment:
    """The same rows in files, for whoever needs files."""
    if segment.inline is None:
        return segment
    made = write_table(segment.inline.table, path, segment.schema, in_file=True)
    assert made is not None
    return replace(made, low=segment.low, high=segment.high, tags=segment.tags)


def write_results(frame: Frame, path: Place, *, small: bool) -> Segment | None:
    """Rows of several queries, so that a reader of one finds its own (`storage/by_query.py`)."""
    if not small:
        return write(frame, path, small=False)
    table, rows = by_query(frame.toArrow())
    made = write_table(table, path, schema_of(frame), row_groups=list(rows.values()))
    return None if made is None else replace(made, tags={ROWS: rows})


def read(
    spark: SparkSession,
    segments: Sequence[Segment],
    sizes: SizePolicy = USUAL,
    selects: Sequence[Sequence[str]] = (),
) -> Frame | None:
    """The rows of all the segments as one DataFrame, or None if there are no segments. `selects`: SELECT lists over
    them, the innermost first."""
    if not segments:
        return None
    handed = hand(spark, segments, sizes=sizes)
    if handed is not None:
        return selected(handed, selects)
    if lie_alike(segments):
        return scan(spark, segments, selects)
    frames: list[Frame] = []
    for schema, alike in _by_schema(segments).items():
        filed = [segment for segment in alike if segment.files]
        if filed:
            frames.append(scan(spark, filed))
        inside = [segment for segment in alike if segment.inline is not None]
        if inside:
            rows = [part.cast(arrow_of(schema)) for segment in inside for part in tables_of(segment)]
            frames.append(LazyFrame.of(spark, pa.concat_tables(rows).combine_chunks(), struct(schema)))
    return selected(together(frames), selects)


def scan(spark: SparkSession, segments: Sequence[Segment], selects: Sequence[Sequence[str]] = ()) -> DataFrame:
    """The rows of files of one schema, and what SELECT lists make of them: files that are known need not be looked for,
    and lists that are known together are analysed once."""
    schema, files = segments[0].schema, [file for segment in segments for file in segment.paths]
    if ordered_scan.available(spark):
        return ordered_scan.scan(spark, schema, [(file, os.path.getsize(file)) for file in files], selects)
    return made(selected(spark.read.schema(struct(schema)).parquet(*files), selects))


def lie_alike(segments: Sequence[Segment]) -> bool:
    """Whether all rows are in files of one schema."""
    return all(segment.files for segment in segments) and len({segment.schema for segment in segments}) == 1


def selected(frame: Frame, selects: Sequence[Sequence[str]]) -> Frame:
    """What SELECT lists make of a frame, the innermost first."""
    for texts in selects:
        frame = frame.selectExpr(*texts)
    return frame


def read_shared(
    spark: SparkSession, segments: Sequence[Segment], sizes: SizePolicy = USUAL, kind: Hashable = None
) -> Frame | None:
    """The same, of rows that many shapes read, one after the other: few rows are made ready once for all of them.
    Plans of shapes of one `kind` run together."""
    key = (id(spark), sizes, kind, *(segment.key for segment in segments))
    with _sharing:
        found = _shared.get(key)
    if found is not None:
        return found[1]
    frame = read(spark, segments, sizes)
    if isinstance(frame, LazyFrame) and all(segment.inline is not None for segment in segments):
        frame = frame.in_company()
        with _sharing:
            _shared[key] = (segments, frame)  # (with the segments: an inline one is known by its id)
            while len(_shared) > SHARED:
                _shared.popitem(last=False)
    return frame


def frame(spark: SparkSession, segments: Sequence[Segment]) -> DataFrame | None:
    """The same as a DataFrame that users may do with as they like."""
    found = read(spark, segments)
    return None if found is None else made(found)


def hand(
    spark: SparkSession,
    segments: Sequence[Segment],
    revise: Callable[[pa.Table, Segment], pa.Table] = lambda table, segment: table,
    more: StructType = StructType(),  # noqa: B008 - never changed
    sizes: SizePolicy = USUAL,
) -> LazyFrame | None:
    """A few rows are read here and handed out as a draft: Spark need not open their files, nor plan again.

    `revise`: what is to be done to a segment's rows before, `more`: the columns that it adds. None: they are many, or a
    file lacks a column.
    """
    found = tables(segments, revise, more, sizes)
    if not found:
        return None
    # In one chunk: Spark takes an Arrow batch without rows for the end of all.
    drafts = together(LazyFrame.of(spark, table.combine_chunks(), schema) for schema, table in found)
    assert isinstance(drafts, LazyFrame)
    return LazyFrame.in_order(spark, drafts.toArrow(), drafts.schema)


def tables(
    segments: Sequence[Segment],
    revise: Callable[[pa.Table, Segment], pa.Table],
    more: StructType = StructType(),  # noqa: B008 - never changed
    sizes: SizePolicy = USUAL,
) -> list[tuple[StructType, pa.Table]] | None:
    """A few rows, read here: a table for each schema. None: they are many, or a file lacks a column."""
    if not are_few(segments, sizes):
        return None
    found = []
    for schema, alike in _by_schema(segments).items():
        schema = with_more(schema, more)
        wanted = struct(schema)
        parts = [revise(part, segment) for segment in alike for part in tables_of(segment)]
        if any(len(part.schema) != len(wanted) for part in parts):
            return None
        arrow = arrow_of(schema)
        found.append((wanted, pa.concat_tables([p if p.schema.equals(arrow) else p.cast(arrow) for p in parts])))
    return found


def are_few(segments: Sequence[Segment], sizes: SizePolicy = USUAL) -> bool:
    """Whether they are worth being read here, without a job."""
    return sizes.is_handed(rows_of(segments), sum(len(segment.files) for segment in segments))


def tables_of(segment: Segment) -> list[pa.Table]:
    """What lies in a segment's files, in the order of its columns."""
    columns = struct(segment.schema).names
    return [part.select([name for name in columns if name in part.column_names]) for part in segment.tables()]


def _by_schema(segments: Sequence[Segment]) -> dict[str, list[Segment]]:
    found: dict[str, list[Segment]] = {}
    for segment in segments:
        found.setdefault(segment.schema, []).append(segment)
    return found


def linked(segment: Segment, folder: Place, name: str) -> Segment:
    """The same rows under another path, without a copy: the files are linked, so that each path may go on its own.
    Rows in the record have no path."""
    files = tuple(f"{folder.reference}/{name}-{number}.parquet" for number in range(len(segment.files)))
    for file, target in zip(segment.files, files, strict=True):
        folder.store.link(file, target)
    return replace(segment, files=files)


def as_one(parts: Sequence[Segment], low: int | None, high: int | None) -> Segment:
    """Segments of one schema and store, without tags that differ, as one."""
    files, sums = (tuple(x for part in parts for x in getattr(part, name)) for name in ("files", "sums"))
    size = sum(part.bytes for part in parts)
    sums = sums if len(sums) == len(files) else ()  # recorded files may have none
    return replace(parts[0], files=files, sums=sums, rows=rows_of(parts), bytes=size, low=low, high=high, tags={})


def bounds_of(frame: FileFrame, time: str) -> tuple[int, int] | None:
    """Between which times (microseconds) the rows lie, as the files' footers say; None: they do not."""
    found = frame.source(time)
    if found is None:
        return None
    column, follow = found
    known = [_footer_bounds(pq.read_metadata(path), column) for part in frame.segments for path in part.paths]
    there = [bounds for bounds in known if bounds is not None]
    if len(there) < len(known) or not there:
        return None
    return follow(min(low for low, _ in there)), follow(max(high for _, high in there))


def empty(spark: SparkSession, columns: Sequence[Column]) -> DataFrame:
    """No rows, but the columns they would have."""
    names = ", ".join(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in columns)
    return spark.sql(f"SELECT {names} WHERE false")


def schema_of(frame: Frame) -> str:
    return text_of(frame.schema)


@remembered
def text_of(schema: StructType) -> str:
    """As segments keep it. Whether a plan knows that a column has no NULLs makes no other schema of it."""
    return json_of(schema).replace('"nullable":false', '"nullable":true')


def with_more(schema: str, more: StructType) -> str:
    """A schema with columns behind its own."""
    return _joined(schema, json_of(more)) if more.fields else schema


@lru_cache(maxsize=512)
def _joined(schema: str, more: str) -> str:
    return json_of(StructType([*struct(schema).fields, *struct(more).fields]))


@lru_cache(maxsize=512)
def struct(schema: str) -> StructType:
    return StructType.fromJson(json.loads(schema))


@lru_cache(maxsize=512)
def arrow_of(schema: str) -> pa.Schema:
    return to_arrow_schema(struct(schema), timezone="UTC")


def rows_of(segments: Sequence[Segment | None]) -> int:
    return sum(segment.rows for segment in segments if segment is not None)


def micros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds since 1970."""
    in_micros = column if column.type.unit == "us" else column.cast(pa.timestamp("us", tz=column.type.tz))
    return in_micros.cast(pa.int64())


def _bounds(column: pa.ChunkedArray) -> tuple[int | None, int | None]:
    bounds = pc.min_max(micros(column) if pa.types.is_timestamp(column.type) else column)
    return bounds["min"].as_py(), bounds["max"].as_py()


def _written_by_spark(path: Place, schema: str, prune_by: str | None) -> Segment | None:
    store, files, rows, size = path.store, [], 0, 0
    low: int | None = None
    high: int | None = None
    for file in store.take_in(path.reference):
        footer = pq.read_metadata(store.path(file))
        if footer.num_rows == 0:
            store.delete(file)
            continue
        files.append(file)
        rows += footer.num_rows
        size += os.stat(store.path(file)).st_size
        if prune_by is not None:
            bounds = _footer_bounds(footer, prune_by)
            assert bounds is not None, f"{file} has no least and greatest value of {prune_by}"
            least, most = bounds
            low = least if low is None else min(low, least)
            high = most if high is None else max(high, most)
    sums = tuple(map(store.checksum, files))
    return Segment(tuple(files), rows, size, schema, low, high, sums=sums, store=store) if files else None


def _footer_bounds(footer: Any, column: str) -> tuple[int, int] | None:
    """Least and greatest value; None: there is no such column, or it has no statistics."""
    index = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == column), None)
    if index is None:
        return None
    lows, highs = [], []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int | datetime):
            return None
        lows.append(_micros(statistics.min))
        highs.append(_micros(statistics.max))
    return min(lows), max(highs)


def _micros(value: Any) -> int:
    if isinstance(value, int):
        return value
    return int((value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1))
