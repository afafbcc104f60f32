"""Micro-batch time with 1 to 1,000 queries of one shape, and how many native streaming queries the machine holds.

2,000 devices on 1,000 sites send the same rows in every case; the queries share the devices out among them, so the
same rows are processed whatever their number. The native queries are the same aggregate over Spark's rate source, as
many as there are at a time; a query's latency is the time its micro-batch takes.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench._harness import say
from bench._memory import peak_memory
from bench.engine import data, ground

DEVICES, SITES = 2_000, 1_000
ROWS = 100_000
COUNTS = (1, 10, 100, 1_000)
SQL = """SELECT device, count(*) AS n, sum(value) AS total, max(value) AS most, window.end AS until
         FROM readings WHERE device IN ({devices}) AND value >= {least}
         GROUP BY device, window(ts, '10 seconds')"""
#: 5 s of event time a micro-batch: every other one closes a window
STREAM = data.Stream("readings", keys=1_000, rate=20_000, devices=DEVICES)
LATENCY_LIMIT_S, NATIVE_AT_MOST, NATIVE_WAIT_S = 10.0, 64, 40.0


def measure(
    spark: SparkSession, work: Path, counts: Sequence[int] = COUNTS, batches: int = 14, *, back: bool = True
) -> dict[str, Any]:
    """Micro-batch times for each number of queries, all over the same rows; `back`: each once more, in reverse."""
    with peak_memory() as peak:
        tables = list(data.batches(STREAM, ROWS, batches))
        # Not counted: without it the first case would pay for the JVM's compiler, and the others look good beside it.
        _case(spark, work / "warm", counts[0], tables[:8])
        # There and back again: whoever comes later finds a warmer machine, and each number of queries is once later.
        runs = [
            _case(spark, work / str(count), count, tables) for count in (*counts, *(reversed(counts) if back else ()))
        ]
    cases = [_summary(count, [run for run in runs if run["queries"] == count]) for count in counts]
    by_count = {case["queries"]: case["median_ms"] for case in cases}
    ratio = by_count[max(by_count)] / by_count[10] if 10 in by_count else None
    results = {case["results"] for case in cases}
    return {
        "cases": cases,
        "ratio_10_to_most": None if ratio is None else round(ratio, 2),
        "same_results": len(results) == 1,
        "memory": peak.to_json(),
    }


def _case(spark: SparkSession, root: Path, count: int, tables: Sequence[pa.Table]) -> dict[str, Any]:
    with ground.fleet(spark, root, ["readings"], max_rows=ROWS, sites=SITES, devices=DEVICES) as fleet:
        ground.submit_all(fleet, {f"q{number}": _sql(number, count) for number in range(count)})
        for table in tables:
            fleet.push("readings", table)
            fleet.process_available()
        runner = ground.runner_of(fleet, "q0")
        # The first batches compile; what they show is the start of a shape, not the number of queries.
        took = ground.times(runner)[4:]
        results = sum(record["metrics"]["rows_out"] for _, record in runner.commits.after(0))
    shutil.rmtree(root)
    say(f"  {count} queries: median {statistics.median(took):.0f} ms a micro-batch")
    return {"queries": count, "took_ms": took, "results": results}


def _summary(count: int, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    took = sorted(ms for run in runs for ms in run["took_ms"])
    return {
        "queries": count,
        "median_ms": round(statistics.median(took), 1),
        "p95_ms": round(took[int(0.95 * (len(took) - 1))], 1),
        "rows_a_batch": ROWS,
        "results": runs[0]["results"] if len({run["results"] for run in runs}) == 1 else -1,
    }


def _sql(number: int, count: int) -> str:
    mine = ", ".join(f"'d{k}'" for k in range(number, DEVICES, count))
    # All queries keep all rows (the same work in every case), but none is another's twin.
    return SQL.format(devices=mine, least=-number)


def native_ramp(spark: SparkSession, work: Path, at_most: int = NATIVE_AT_MOST) -> dict[str, Any]:
    """Double the native queries until one of them takes longer than the limit."""
    running: list[StreamingQuery] = []
    levels: list[dict[str, Any]] = []
    try:
        while (not levels or levels[-1]["worst_s"] <= LATENCY_LIMIT_S) and len(running) < at_most:
            more = range(len(running), max(2 * len(running), 1))
            running.extend(_start_native(spark, work / f"native-{number}", number) for number in more)
            levels.append({"queries": len(running), "worst_s": round(_worst_latency(running), 2)})
            say(f"  {len(running)} native queries: worst micro-batch {levels[-1]['worst_s']:.1f} s")
    finally:
        for query in running:
            query.stop()
    held = max((level["queries"] for level in levels if level["worst_s"] <= LATENCY_LIMIT_S), default=0)
    return {"levels": levels, "held": held, "limit_s": LATENCY_LIMIT_S, "at_most": at_most}


def _start_native(spark: SparkSession, work: Path, number: int) -> StreamingQuery:
    session = spark.newSession()
    ticks = (
        session.readStream.format("rate").option("rowsPerSecond", 1_000).load().withWatermark("timestamp", "2 seconds")
    )
    rows = ticks.selectExpr(
        f"concat('d', value % {DEVICES}) AS device", "int(value % 1000) AS value", "timestamp AS ts"
    )
    rows.createOrReplaceTempView("readings")
    query = session.sql(_sql(number, 1_000))
    writer = query.writeStream.format("parquet").option("path", str(work / "output")).outputMode("append")
    return writer.option("checkpointLocation", str(work / "checkpoint")).start()


def _worst_latency(running: Sequence[StreamingQuery]) -> float:
    """Seconds of the slowest query's micro-batch, once each has done three more; a query that does not counts as long
    as it has been waited for."""
    before = [_batch_id(query) for query in running]
    until = time.monotonic() + NATIVE_WAIT_S
    while time.monotonic() < until and any(_batch_id(q) < b + 3 for q, b in zip(running, before, strict=True)):
        time.sleep(0.2)
        for query in running:
            if (failure := query.exception()) is not None:
                raise failure
    return max(_latency(q, b) for q, b in zip(running, before, strict=True))


def _batch_id(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else query.lastProgress.batchId


def _latency(query: StreamingQuery, before: int) -> float:
    # The first batch of a query is its start: not counted, unless nothing else happened in all the time.
    took = [p.durationMs.get("triggerExecution", 0) / 1000 for p in query.recentProgress if p.batchId > max(before, 0)]
    return max(took, default=NATIVE_WAIT_S)
