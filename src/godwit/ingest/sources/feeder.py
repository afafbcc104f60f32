"""A feeder brings rows of many devices, in Parquet files, into the source logs: once each, whatever crashes.

Every batch has a sequence number. An entry of a log notes it for each device whose rows it holds, so a batch that is
sent again (one region's entry was written, another's was not) leaves out exactly what came through.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    FloatType,
    FractionalType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from godwit import names
from godwit.api.core import FleetCore
from godwit.engine import segments
from godwit.errors import SourceError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.schema import Schema
from godwit.ingest.source_log import newest_by_device
from godwit.storage.log import Segment
from godwit.storage.names import number
from godwit.storage.place import Place

#: a staged row that does not fit: the row and the reason, as JSON; null for all others
DEAD = "__dead"
#: where Spark's readers of text put what they cannot parse
CORRUPT = "_corrupt_record"


#: (device, its newest event in microseconds, its rows)
Newest = list[tuple[DeviceId, int, int]]


class Feeder:
    """Feeds one stream. `name` identifies it among the feeders of the stream, also after a restart."""

    def __init__(self, fleet: FleetCore, stream: StreamId, name: str, ahead: int) -> None:
        self._fleet, self.stream, self._ahead = fleet, stream, ahead
        self.name = names.check("feeder", name, SourceError)
        self.schema: Schema = fleet.schema(stream)
        self._folder = Place(fleet.store, f"ingest/{stream}/{name}")
        self.rows = 0

    def through(self, sequence: int) -> bool:
        """Whether a whole batch came through before (a later one has)."""
        return self._fleet.gateway.fed(self.stream, self.name) > sequence

    def stage(self, frame: DataFrame, sequence: int) -> Segment | None:
        """Let Spark write the rows, each with the reason if it does not fit; None if there are none."""
        path = self._folder / number(sequence)
        self._fleet.store.disk.delete_folder(path.reference)
        return segments.write(judged(frame, self.schema, self._fleet.gateway.now_us()), path, small=False)

    def feed(self, segment: Segment, sequence: int, *, staged: bool, newest: Newest | None = None) -> None:
        """Append the segment's rows to the logs of the regions their devices belong to.

        `staged`: the files are the feeder's own and may hold rows that do not fit; they go if they cannot be used.
        `newest`: what `newest` says of the segment, if it is known already.
        """
        dead = self._dead(segment) if staged else pa.table({})
        if dead.num_rows:
            self._fleet.gateway.dead.add(self.stream, [json.loads(text) for text in dead.column(DEAD).to_pylist()])
        newest = self.newest(segment, staged) if newest is None else newest
        with self._fleet.lock:
            whole = self._whole(newest, sequence)
            if whole is not None and not dead.num_rows:
                own = replace(segment, schema=self.schema.json)
                args = (whole, own, newest, self._fleet.deployment, self.name, sequence)
                self._fleet.gateway.feed(self.stream, *args)
                self.rows += segment.rows
            else:
                self._by_region(segment, newest, sequence, staged)
                if staged:
                    for file in segment.files:
                        self._fleet.store.delete(file)

    def wait(self, *, may_step: bool) -> None:
        """Do not run ahead of the slowest reader by more than `ahead` entries.

        While the fleet does not run, its logs have no reader: then work is done here (`may_step`), or rows pile up.
        """
        while self._unread() > self._ahead:
            if self._fleet.pool.running:
                self._fleet.check()
                time.sleep(0.02)
            elif not (may_step and self._fleet.pool.step_all()):
                return

    def _unread(self) -> int:
        gateway, pool = self._fleet.gateway, self._fleet.pool
        regions = set(self._fleet.deployment.sites.values())
        return max((pool.unread(r, self.stream, gateway.log(r, self.stream).log.last) for r in regions), default=0)

    def newest(self, segment: Segment, staged: bool = False) -> Newest:
        """(device, its newest event, its rows), from only the columns that say so."""
        time, device = self.schema.stream.time, self.schema.stream.device
        columns = [time] if device is None else [time, device]
        # Names come as numbers: to group by them is twice as fast.
        names = [] if device is None else [device]
        if staged or segment.inline is not None:
            reader = ds.ParquetFileFormat(dictionary_columns=names)
            alive = ds.field(DEAD).is_null() if staged else None
            table = _dataset(segment, reader).to_table(columns=columns, filter=alive)
        else:  # (without a plan for it, that takes half the time)
            tables = (pq.read_table(path, columns=columns, read_dictionary=names) for path in segment.paths)
            table = pa.concat_tables(tables)
        if device is None:
            name = DeviceId(self.stream)
            table = table.append_column("__name", pa.array([name] * table.num_rows, pa.string()))
        return newest_by_device(table, time, device or "__name")

    def _whole(self, newest: Sequence[tuple[DeviceId, int, int]], sequence: int) -> RegionId | None:
        """The region that all rows belong to, if it is one, and none of them came through before."""
        gateway = self._fleet.gateway
        homes = gateway.homes(self.stream, [device for device, _, _ in newest], self._fleet.deployment)
        if any(gateway.sequence(self.stream, f"{self.name}|{d}") >= sequence for d, _, _ in newest):
            return None
        return next(iter(homes)) if len(homes) == 1 else None

    def _by_region(
        self, segment: Segment, newest: Sequence[tuple[DeviceId, int, int]], sequence: int, staged: bool
    ) -> None:
        """Cut the rows by region, leaving out what is dead and what came through before."""
        gateway, deployment = self._fleet.gateway, self._fleet.deployment
        table = _dataset(segment).to_table()
        if staged:
            table = table.filter(pc.is_null(table.column(DEAD)))
        table = self.schema.conform(table).table
        fresh = {d: (d, at, n) for d, at, n in newest if gateway.sequence(self.stream, f"{self.name}|{d}") < sequence}
        for region, devices in gateway.homes(self.stream, fresh, deployment).items():
            mine = self._rows_of(table, devices)
            if region is None:
                reason = "its device is not attached to any site and never was; declare it with fleet.device(...)"
                gateway.dead.add(self.stream, [{"row": row, "reason": reason} for row in mine.to_pylist()])
                continue
            path = self._folder / number(sequence) / region
            made = segments.write_table(mine, path, self.schema.json)
            if made is not None:
                args = (region, made, [fresh[d] for d in devices], deployment, self.name, sequence)
                gateway.feed(self.stream, *args)
                self.rows += made.rows

    def _rows_of(self, table: pa.Table, devices: Sequence[DeviceId]) -> pa.Table:
        column = self.schema.stream.device
        if column is None:
            return table
        return table.filter(pc.is_in(table.column(column).cast(pa.string()), pa.array(devices, pa.string())))

    def _dead(self, segment: Segment) -> pa.Table:
        rows = _dataset(segment)
        found: pa.Table = rows.to_table(columns=[DEAD], filter=ds.field(DEAD).is_valid())
        return found


def _dataset(segment: Segment, files: ds.FileFormat | str = "parquet") -> ds.Dataset:
    if segment.inline is not None:
        return ds.dataset(segment.inline.table)
    return ds.dataset(segment.paths, format=files)


def judged(frame: DataFrame, schema: Schema, now_us: int | None = None) -> DataFrame:
    """Rows cast to the schema, and what is wrong with those that do not fit: one native Spark plan."""
    reasons: list[Column] = []
    if CORRUPT in frame.columns:
        fields = ", ".join(f"{c.name} {c.type}" for c in schema.stream.columns)
        reasons.append(F.when(F.col(CORRUPT).isNotNull(), F.lit(f"it is not a row of ({fields})")))
    columns = []
    for field in schema.spark.fields:
        cast = F.col(f"`{field.name}`").try_cast(field.dataType)
        columns.append(cast.alias(field.name))
        wrong = F.lit(f"{field.name} is not a {field.dataType.simpleString()}")
        reasons.append(F.when(F.col(f"`{field.name}`").isNotNull() & _lost(frame, field, cast), wrong))
    reasons += [F.when(F.col(f"`{name}`").isNull(), F.lit(reason)) for name, reason in schema.needed]
    micros = F.unix_micros(F.col(f"`{schema.stream.time}`").try_cast("timestamp"))
    for first, end, why in schema.times(now_us):
        reasons.append(F.when((micros >= first) & (micros < end), F.lit(why)))
    reason = F.coalesce(*reasons)
    told = F.to_json(F.struct(reason.alias("reason"), F.struct(*(F.col(f"`{c}`") for c in frame.columns)).alias("row")))
    return frame.select(*columns, F.when(reason.isNotNull(), told).alias(DEAD))


def _lost(frame: DataFrame, field: StructField, cast: Column) -> Column:
    """Whether a value is not what its column holds, or would not come back as it was (the rule is in `schema.py`)."""
    have, want = frame.schema[field.name].dataType, field.dataType
    if have == want:
        return F.lit(False)
    if isinstance(have, StringType):
        return cast.isNull()  # text is what such sources carry: Spark reads it
    numbers = isinstance(have, NumericType) and isinstance(want, NumericType)
    if not numbers and not isinstance(want, ArrayType | MapType | StructType):
        return F.lit(True)
    rounds = isinstance(want, FloatType | DoubleType) and isinstance(have, FractionalType)
    return cast.isNull() if rounds or not numbers else cast.isNull() | (cast.try_cast(have) != F.col(f"`{field.name}`"))
