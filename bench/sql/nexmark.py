"""Nexmark's queries over generated events in files: ours, and plain Spark where it can run the same text.

Events per second and core are events by processor time, of this process and Spark's. A native query reads the same
files, as many a trigger as we take a micro-batch. Where it has windows, one row two days later closes them; we are told
that sources are closed.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench._memory import cpu_seconds
from bench.sql.answers import differences
from godwit.api.fleet import Fleet
from godwit.engine.user_functions import UserFunctions
from godwit.ids import QueryId, RegionId, SiteId, StreamId
from godwit.ingest.schema import columns_of
from godwit.maintenance.housekeeping import Retention
from godwit.model.plan import ARRIVED, arrival_view
from godwit.model.tables import reference_table
from godwit.model.topology import Site, Topology
from godwit.region.runner import Limits
from godwit.sql import compile_query
from godwit.workloads.base import Settings, StreamWorkload
from godwit.workloads.nexmark_suite import AUCTION, BID, FUNCTIONS, PERSON, QUERIES, REFERENCES, events, suite

#: a lookup, as plain Spark says it
OTHERWISE = {
    "q13": "SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.value FROM bid B JOIN side_input S "
    "ON mod(B.auction, 10000) = S.key"
}
ALL = StreamWorkload("nexmark", (PERSON, AUCTION, BID), "", events, REFERENCES, FUNCTIONS)
STREAMS = {stream.id: stream for stream in (PERSON, AUCTION, BID)}
WATERMARK, END = "4 seconds", dt.timedelta(days=2)


@dataclass(frozen=True)
class Ran:
    """One run of one query."""

    engine: str
    query: str
    events: int
    seconds: float
    cpu_s: float
    results: int
    #: rows that DuckDB finds missing or too many; None: it was not asked
    wrong: int | None = None

    @property
    def per_core(self) -> float:
        """Events by processor time."""
        return self.events / self.cpu_s


def write(settings: Settings, folder: Path, batches: int) -> None:
    """A file a stream and batch; what is there already stays (they follow from the seed)."""
    if (folder / "complete").exists():
        return
    for number, batch in enumerate(ALL.batches(settings, settings.seconds / batches)):
        for stream, rows in batch.items():
            (folder / stream).mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, folder / stream / f"{number:05d}.parquet")
    (folder / "complete").touch()


def ours(spark: SparkSession, query: str, settings: Settings, folder: Path, root: Path, judged: bool = False) -> Ran:
    """`judged`: what came out is compared with DuckDB's answer."""
    workload = suite(query)
    fleet = Fleet(root, spark, limits=Limits(max_rows=10_000_000), retention=Retention(keep=True))
    try:
        fleet.topology.add(Topology.of([Site(SiteId("here"), RegionId("here"), kind="cloud")], []))
        workload.declare(fleet, settings, ["here"])
        handle = fleet.submit(workload.sql, query)
        files = {str(s.id): sorted((folder / str(s.id)).glob("*.parquet")) for s in workload.streams}
        began, cpu = time.perf_counter(), cpu_seconds()
        for number in range(max(map(len, files.values()))):
            for name, mine in files.items():
                if number < len(mine):
                    fleet.replay(name, [mine[number]], ahead=1, name=f"{name}-{number}").run()
            fleet.process_available(timeout=600)
        fleet.close_sources()
        fleet.process_available(timeout=600)
        took, spent = time.perf_counter() - began, cpu_seconds() - cpu
        results, wrong = handle.results(), None
        if judged:
            results.write.parquet(str(root / "told"))
            wrong, _ = differences(query, folder, root / "told")
        return Ran("ours", query, settings.events, took, spent, results.count(), wrong)
    finally:
        fleet.stop()
        shutil.rmtree(root, ignore_errors=True)


def native_or_why(spark: SparkSession, query: str, settings: Settings, folder: Path, work: Path) -> Ran | str:
    """Plain Spark's run, or what it says to the query."""
    try:
        return native(spark, query, settings, folder, work)
    except PySparkException as error:
        said = error.getCondition() or str(error).splitlines()[0]
        return said.split(".")[-1].replace("_", " ").lower()[:60]


def native(spark: SparkSession, query: str, settings: Settings, folder: Path, work: Path) -> Ran:
    workload, session = suite(query), spark.newSession()
    declared = [function.name for function in workload.functions]
    tables = [reference_table(StreamId(r.name), columns_of(r.schema), (r.key,)) for r in workload.references]
    known = {**STREAMS, **{table.id: table for table in tables}}
    compiled = compile_query(workload.sql, known, QueryId(query), declared=declared)
    sql = OTHERWISE.get(query, compiled.oracle_sql)
    functions = UserFunctions((session,))
    for function in workload.functions:
        functions.add(function.name, function.call, function.type, True)
    for reference in workload.references:
        rows = session.createDataFrame(pa.Table.from_pylist(reference.rows())).cache()
        rows.createOrReplaceTempView(reference.name)
    shutil.rmtree(work, ignore_errors=True)
    if any(operator.stateful for operator in compiled.shape.plan.operators):
        folder = _with_an_end(folder, work / "events", [str(stream.id) for stream in workload.streams])
    began, cpu = time.perf_counter(), cpu_seconds()
    for stream in workload.streams:
        schema = ", ".join(f"{c.name} {c.type}" for c in stream.columns)
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / str(stream.id)))
        rows.withWatermark(stream.time, WATERMARK).createOrReplaceTempView(str(stream.id))
        arrived = rows.withColumn(ARRIVED, F.current_timestamp()).withWatermark(ARRIVED, WATERMARK)
        arrived.createOrReplaceTempView(arrival_view(stream.id))
    writer = session.sql(sql).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "output")).awaitTermination()
    took, spent = time.perf_counter() - began, cpu_seconds() - cpu
    found = session.read.parquet(str(work / "output")).count()
    shutil.rmtree(work)
    return Ran("native", query, settings.events, took, spent, found)


def _with_an_end(events: Path, folder: Path, streams: list[str]) -> Path:
    """The same files, and one more a stream whose only row lies behind every window."""
    for stream in streams:
        (folder / stream).mkdir(parents=True)
        files = sorted((events / stream).glob("*.parquet"))
        for file in files:
            os.link(file, folder / stream / file.name)
        last = pq.read_table(files[-1]).slice(0, 1)
        place = last.schema.get_field_index("dateTime")
        later = pa.array([last.column("dateTime")[0].as_py() + END], last.schema.field("dateTime").type)
        pq.write_table(last.set_column(place, "dateTime", later), folder / stream / "99999.parquet")
    return folder


def equal(spark: SparkSession, work: Path, settings: Settings) -> dict[str, Any]:
    """All queries in one fleet over a few events: which are accepted, and which equal the batch."""
    fleet = Fleet(work / "equal", spark)
    try:
        fleet.topology.add(Topology.of([Site(SiteId("here"), RegionId("here"), kind="cloud")], []))
        ALL.declare(fleet, settings, ["here"])
        for name in QUERIES:
            fleet.submit(suite(name).sql, name)
        for batch in ALL.batches(settings, settings.seconds / 2):
            for stream, rows in batch.items():
                fleet.push(stream, rows)
            fleet.process_available()
        fleet.close_sources()
        fleet.process_available()
        same = [name for name in QUERIES if fleet.query(name).verdict().equal]
        return {"accepted": len(fleet.queries), "equal": len(same), "different": sorted(set(QUERIES) - set(same))}
    finally:
        fleet.stop()
