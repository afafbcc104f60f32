"""Nexmark's queries over generated events in files: ours, and plain Spark where it can say the same.

Events per second and core are events by processor time, of this process and Spark's. A native query reads the same
files, as many a trigger as we take a micro-batch; what stays open at the end (its watermark stops) it does not answer.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench._memory import cpu_seconds
from godwit.api.fleet import Fleet
from godwit.ids import QueryId, RegionId, SiteId
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology
from godwit.region.runner import Limits
from godwit.sql import compile_query
from godwit.workloads.base import Settings, StreamWorkload
from godwit.workloads.nexmark_suite import AUCTION, BID, PERSON, QUERIES, events, suite

#: queries that plain Spark streaming runs as they are: of single rows, and with one aggregate in a window
NATIVE = ("q0", "q1", "q2", "q10", "q11", "q12", "q13", "q14", "q21", "q22")
ALL = StreamWorkload("nexmark", (PERSON, AUCTION, BID), "", events)
STREAMS = {stream.id: stream for stream in (PERSON, AUCTION, BID)}
WATERMARK = "4 seconds"


@dataclass(frozen=True)
class Ran:
    """One run of one query."""

    engine: str
    query: str
    events: int
    seconds: float
    cpu_s: float
    results: int

    @property
    def per_core(self) -> float:
        """Events by processor time."""
        return self.events / self.cpu_s


def write(settings: Settings, folder: Path, batches: int) -> None:
    """A file a stream and batch."""
    for number, batch in enumerate(ALL.batches(settings, settings.seconds / batches)):
        for stream, rows in batch.items():
            (folder / stream).mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, folder / stream / f"{number:05d}.parquet")


def ours(spark: SparkSession, query: str, settings: Settings, folder: Path, root: Path) -> Ran:
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
        return Ran("ours", query, settings.events, took, spent, handle.results().count())
    finally:
        fleet.stop()
        shutil.rmtree(root, ignore_errors=True)


def native(spark: SparkSession, query: str, settings: Settings, folder: Path, work: Path) -> Ran:
    workload, session = suite(query), spark.newSession()
    sql = compile_query(workload.sql, STREAMS, QueryId(query)).oracle_sql
    shutil.rmtree(work, ignore_errors=True)
    began, cpu = time.perf_counter(), cpu_seconds()
    for stream in workload.streams:
        schema = ", ".join(f"{c.name} {c.type}" for c in stream.columns)
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / str(stream.id)))
        rows.withWatermark(stream.time, WATERMARK).createOrReplaceTempView(str(stream.id))
    writer = session.sql(sql).writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
    writer.option("checkpointLocation", str(work / "checkpoint")).start(str(work / "output")).awaitTermination()
    took, spent = time.perf_counter() - began, cpu_seconds() - cpu
    found = session.read.parquet(str(work / "output")).count()
    shutil.rmtree(work)
    return Ran("native", query, settings.events, took, spent, found)


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
