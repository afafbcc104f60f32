"""Rows a second over recorded files: a fleet, with exactly-once, clocks and routing on, against plain Spark.

Four workloads. Ours and theirs take turns on the same files, in micro-batches of the same size, in one session; their
results are compared by count and an order-free checksum over all columns.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._harness import headline, say
from bench._memory import Peak, cpu_seconds, peak_memory
from bench.engine import data, ground, native
from godwit.api.fleet import Fleet

AGGREGATE = """SELECT key, count(*) AS n, sum(value) AS total, max(value) AS most, avg(value) AS mean,
                      window.start AS since, window.end AS until
               FROM readings GROUP BY key, window(ts, '10 seconds')"""
JOIN = """SELECT a.device, b.device AS other, a.key, a.value, b.value AS answer, a.ts, b.ts AS met
          FROM asked a JOIN answered b
          ON a.key = b.key AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 SECONDS"""


@dataclass(frozen=True)
class Workload:
    name: str
    sql: str
    streams: tuple[data.Stream, ...]
    target: float
    #: the native state stores to measure, the one that was the better in the full run first
    providers: tuple[str | None, ...] = ("hdfs", "rocksdb")
    #: how often each engine runs, in turns
    rounds: int = 1
    #: the slower state store gets at most so many rows a stream: it is two to three times slower
    slower_rows: int | None = None

    def quicker(self) -> Workload:
        return replace(self, providers=self.providers[:1], slower_rows=None)

    @property
    def rows_a_batch(self) -> int:
        return sum(stream.rows_a_batch for stream in self.streams)


def _side(name: str) -> data.Stream:
    return data.Stream(name, keys=200_000, rows_a_file=100_000, rate=20_000)


WORKLOADS = (
    Workload(
        "filter",
        "SELECT device, key, value * 2 + 1 AS doubled, ts FROM readings WHERE value >= 750",
        (data.Stream("readings", keys=1_000),),
        target=1.0,
        providers=(None,),
        rounds=2,
    ),
    Workload(
        "few_keys",
        AGGREGATE,
        (data.Stream("readings", keys=1_000),),
        target=1.0,
        providers=("rocksdb", "hdfs"),
        rounds=2,
    ),
    Workload("many_keys", AGGREGATE, (data.Stream("readings", keys=500_000),), target=2.0, slower_rows=4_000_000),
    Workload(
        "join",
        JOIN,
        (_side("asked"), _side("answered")),
        target=5.0,
        slower_rows=1_200_000,
    ),
)


@dataclass(frozen=True)
class Run:
    """One run of one engine. `check`: (rows, checksum) of its results."""

    engine: str
    rows: int
    seconds: float
    cpu_s: float
    batches: int
    #: seconds of its last micro-batches
    took: tuple[float, ...]
    check: tuple[int, int]

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def measure(
    spark: SparkSession, work: Path, rows: int, names: tuple[str, ...] = (), better: bool = False
) -> Iterator[dict[str, Any]]:
    """Every workload with `rows` rows over all its streams; one result each.

    `better`: only against the state store that was the better one in the full run.
    """
    for workload in WORKLOADS:
        if not names or workload.name in names:
            chosen = workload.quicker() if better else workload
            with peak_memory() as peak:
                yield _compare(spark, chosen, work, rows, peak)


def _compare(spark: SparkSession, workload: Workload, work: Path, rows: int, peak: Peak) -> dict[str, Any]:
    each = rows // len(workload.streams)
    whole = _files(workload, work / "whole", each)
    cut = None if workload.slower_rows is None else _files(workload, work / "cut", min(each, workload.slower_rows))
    _warm_up(spark, workload, work)
    runs = []
    for turn in range(workload.rounds):  # in turns, so that a busy minute of the machine does not hit one engine alone
        better, *slower = workload.providers
        runs.append(run_ours(spark, workload, whole, work / f"ours-{turn}"))
        runs.append(run_native(spark, workload, whole, work / f"native-{turn}", better))
        runs += [run_native(spark, workload, cut or whole, work / f"slower-{turn}", provider) for provider in slower]
        if cut is not None:
            runs.append(run_ours(spark, workload, cut, work / f"ours-cut-{turn}"))
    checks = {}
    for run in runs:
        checks.setdefault(run.rows, set()).add(run.check)
    shutil.rmtree(work)
    return _result(workload, runs, all(len(found) == 1 for found in checks.values()), peak)


def _result(workload: Workload, runs: list[Run], equal: bool, peak: Peak) -> dict[str, Any]:
    """Ours is the long run; the best run of an engine counts, for both alike."""
    longest = max(run.rows for run in runs)
    ours = max((r for r in runs if r.engine == "ours" and r.rows == longest), key=lambda r: r.rate)
    theirs = max((r for r in runs if r.engine != "ours" and r.rows == longest), key=lambda r: r.rate)
    note = f"rows/s; {theirs.engine}, {ours.rows:,} rows ours, {theirs.rows:,} native"
    figure = headline(
        f"engine/{workload.name}",
        round(ours.rate),
        round(theirs.rate),
        workload.target,
        oracle="equal" if equal else "DIFFERENT",
        note=note,
    )
    say(f"{workload.name}: {ours.rate:,.0f} rows/s, native {theirs.rate:,.0f} ({theirs.engine}), {figure['ratio']}x")
    details = [
        {"engine": r.engine, "rows": r.rows, "seconds": round(r.seconds, 2), "rows_per_s": round(r.rate)}
        | {"cpu_s": round(r.cpu_s, 1), "batches": r.batches, "results": r.check[0], "last_batches_s": r.took}
        for r in runs
    ]
    return {"headline": figure, "runs": details, "rows_a_batch": workload.rows_a_batch, "memory": peak.to_json()}


Inputs = Mapping[str, tuple[data.Stream, Path]]
#: results -> (rows, checksum)
Check = Callable[[DataFrame], tuple[int, int]]


def _files(workload: Workload, folder: Path, rows: int) -> Inputs:
    for stream in workload.streams:
        data.write(stream, folder / stream.name, rows)
    return {stream.name: (stream, folder / stream.name) for stream in workload.streams}


def _warm_up(spark: SparkSession, workload: Workload, work: Path) -> None:
    """Both engines once over a small and a last micro-batch: neither pays for its first compilation later on."""
    rows = workload.streams[0].rows_a_batch // 2
    inputs = _files(workload, work / "warm", rows)
    run_ours(spark, workload, inputs, work / "warm-ours")
    for provider in workload.providers:
        run_native(spark, workload, inputs, work / "warm-native", provider)


def run_ours(spark: SparkSession, workload: Workload, inputs: Inputs, root: Path, check: Check | None = None) -> Run:
    """Replay all files, a micro-batch at a time. What feeding costs (a clock for each device) is in the time."""
    with ground.fleet(spark, root, list(inputs), max_rows=workload.rows_a_batch) as fleet:
        query = fleet.submit(workload.sql, "q")
        started, cpu = time.perf_counter(), cpu_seconds()
        rows = _replay(fleet, inputs)
        seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        took = [round(ms / 1000, 2) for ms in ground.times(ground.runner_of(fleet, "q"))]
        run = Run("ours", rows, seconds, cpu, len(took), tuple(took[-20:]), (check or checksum)(query.results()))
    shutil.rmtree(root)
    return _told(workload, run)


def _replay(fleet: Fleet, inputs: Inputs) -> int:
    """Streams that are joined come side by side, as they do to a native query's triggers."""
    if len(inputs) == 1:
        ((name, (stream, folder)),) = inputs.items()
        rows = fleet.replay(name, str(folder / "*.parquet"), ahead=stream.files_a_batch).run()
        fleet.process_available(timeout=600)
        return rows
    rows, number = 0, 0
    waiting = {name: (stream, sorted(folder.glob("*.parquet"))) for name, (stream, folder) in inputs.items()}
    while any(files for _, files in waiting.values()):
        for name, (stream, files) in waiting.items():
            if mine := files[: stream.files_a_batch]:
                rows += fleet.replay(name, mine, ahead=len(mine), name=f"batch-{number}").run()
            waiting[name] = (stream, files[stream.files_a_batch :])
        fleet.process_available(timeout=600)
        number += 1
    return rows


def run_native(
    spark: SparkSession,
    workload: Workload,
    inputs: Inputs,
    work: Path,
    provider: str | None,
    check: Check | None = None,
) -> Run:
    from godwit.sql import compile_query

    streams = {name: _declared(name) for name in inputs}
    sql = compile_query(workload.sql, streams, "q").oracle_sql  # type: ignore[arg-type]
    rows = spark.read.schema(data.SCHEMA).parquet(*(str(folder) for _, folder in inputs.values())).count()
    shutil.rmtree(work, ignore_errors=True)
    cpu = cpu_seconds()
    done = native.run(spark, sql, inputs, work, provider)
    cpu = cpu_seconds() - cpu
    found = (check or checksum)(spark.read.parquet(str(done.output)))
    shutil.rmtree(work)
    name = f"native {provider or 'stateless'}"
    return _told(workload, Run(name, rows, done.seconds, cpu, done.batches, done.took, found))


def _declared(name: str) -> Any:
    from godwit.model.plan import Column, Stream

    columns = (part.split() for part in data.SCHEMA.split(", "))
    return Stream(name, tuple(Column(n, t) for n, t in columns), "ts", "device")  # type: ignore[arg-type]


def _told(workload: Workload, run: Run) -> Run:
    spent = f"{run.rows:,} rows in {run.seconds:.1f} s ({run.cpu_s:.1f} s of processor time)"
    say(f"  {workload.name}, {run.engine}: {spent} = {run.rate:,.0f} rows/s")
    return run


def checksum(results: DataFrame) -> tuple[int, int]:
    """(rows, sum of the rows' hashes): equal multisets have equal ones."""
    columns = sorted(results.columns)
    hashed = results.select(F.xxhash64(*columns).cast("decimal(38,0)").alias("h"))
    row = hashed.agg(F.count("*"), F.coalesce(F.sum("h"), F.lit(0))).collect()[0]
    return int(row[0]), int(row[1])
