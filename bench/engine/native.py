"""The baseline: the same SQL as a plain Spark streaming query, written as a careful Spark user would.

File source with as many files a trigger as we take a micro-batch, its own watermark, Parquet sink, `availableNow`, the
same session and settings. For stateful queries both state store providers are measured, and the better one counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.engine.data import DISORDER, SCHEMA, Stream

STATE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {"rocksdb": f"{STATE}.RocksDBStateStoreProvider", "hdfs": f"{STATE}.HDFSBackedStateStoreProvider"}
#: what Spark's own tuning guide advises for throughput
ROCKSDB = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}


@dataclass(frozen=True)
class Native:
    """A finished native run."""

    seconds: float
    batches: int
    #: seconds of its last micro-batches (Spark remembers twenty)
    took: tuple[float, ...]
    output: Path
    provider: str | None


def run(
    spark: SparkSession, sql: str, inputs: Mapping[str, tuple[Stream, Path]], work: Path, provider: str | None
) -> Native:
    """Run the query over the folders until all rows are in; `inputs`: stream name -> (what it is, its folder)."""
    session = spark.newSession()
    if provider is not None:
        session.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDERS[provider])
        for key, value in ROCKSDB.items():
            session.conf.set(key, value)
    started = time.perf_counter()
    for name, (stream, folder) in inputs.items():
        files = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", stream.files_a_batch)
        files.parquet(str(folder)).withWatermark("ts", DISORDER).createOrReplaceTempView(name)
    query = (
        session.sql(sql)
        .writeStream.format("parquet")
        .option("path", str(work / "output"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    assert query.lastProgress is not None
    took = tuple(round(p.durationMs["triggerExecution"] / 1000, 2) for p in query.recentProgress)
    return Native(seconds, query.lastProgress.batchId + 1, took, work / "output", provider)
