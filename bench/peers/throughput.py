"""Rows per second over recorded files: the fleet, plain Spark and Flink in turns, results compared by checksum.

Ours and plain Spark run as in bench/engine/throughput.py. Flink runs the same question in its own SQL as one streaming
job with exactly-once checkpoints; its time is the job manager's, without planning and submission.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench._harness import say
from bench.engine import throughput as engine
from bench.peers import data
from bench.peers.flink import Flink

#: of Flink: whichever is better in the warm-up runs
BACKENDS = ("hashmap", "rocksdb")
#: of its checkpoints, in turn by round: rare ones cost less, but a job ends with the next one
INTERVALS = ("2 s", "10 s")

_AGGREGATE = """SELECT `key`, COUNT(*), SUM(CAST(`value` AS BIGINT)), MAX(`value`), AVG(CAST(`value` AS DOUBLE)),
                       window_start, window_end
                FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                GROUP BY `key`, window_start, window_end"""
_SUMS = "`key` BIGINT, n BIGINT, total BIGINT, most INT, mean DOUBLE, since TIMESTAMP_LTZ(3), `until` TIMESTAMP_LTZ(3)"
#: workload of bench/engine -> (columns of the results, Flink's SQL for the same)
FLINK = {
    "filter": (
        "device STRING, `key` BIGINT, doubled INT, ts TIMESTAMP_LTZ(3)",
        "SELECT device, `key`, `value` * 2 + 1, ts FROM readings WHERE `value` >= 750",
    ),
    "few_keys": (_SUMS, _AGGREGATE),
    "many_keys": (_SUMS, _AGGREGATE),
    "join": (
        "device STRING, other STRING, `key` BIGINT, `value` INT, answer INT, ts TIMESTAMP_LTZ(3), met TIMESTAMP_LTZ(3)",
        """SELECT a.device, b.device, a.`key`, a.`value`, b.`value`,
                  CAST(a.ts AS TIMESTAMP_LTZ(3)), CAST(b.ts AS TIMESTAMP_LTZ(3))
           FROM asked a JOIN answered b
           ON a.`key` = b.`key` AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND""",
    ),
}
_SOURCE = """CREATE TEMPORARY TABLE {name} (device STRING, `key` BIGINT, `value` INT, ts TIMESTAMP_LTZ(3),
             WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet',
                   'parquet.utc-timezone' = 'true')"""
_SINK = """CREATE TEMPORARY TABLE results ({columns})
           WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true',
                 'parquet.write.int64.timestamp' = 'true')"""

Inputs = Mapping[str, data.PeerInput]


@dataclass(frozen=True)
class PeerRun:
    """One run of one contender."""

    contender: str
    rows: int
    seconds: float
    check: tuple[int, int]
    note: str = ""

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def measure(
    spark: SparkSession, flink: Flink | None, work: Path, rows: int, rounds: int, names: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Every workload with about `rows` rows over all its streams; without Flink, the other two."""
    for workload in engine.WORKLOADS:
        if not names or workload.name in names:
            yield _compare(spark, flink, workload, work / workload.name, rows, rounds)
            shutil.rmtree(work / workload.name)


def _compare(
    spark: SparkSession, flink: Flink | None, workload: engine.Workload, work: Path, rows: int, rounds: int
) -> dict[str, Any]:
    each = rows // len(workload.streams)
    inputs = {s.name: data.write(s, work / "data" / s.name, each) for s in workload.streams}
    warm = {s.name: data.write(s, work / "warm" / s.name, min(each, s.rows_a_batch)) for s in workload.streams}
    ours(spark, workload, warm, work)
    native(spark, workload, warm, work)
    backend = None if flink is None else _better(spark, flink, workload, warm, work)
    runs: list[PeerRun] = []
    for turn in range(rounds):  # in turns, so that a busy minute of the machine does not hit one contender alone
        runs += [ours(spark, workload, inputs, work), native(spark, workload, inputs, work)]
        if flink is not None and backend is not None:
            runs.append(flink_run(spark, flink, workload, inputs, work, backend, INTERVALS[turn % len(INTERVALS)]))
    for run in runs:
        say(f"  {workload.name}, {run.contender}: {run.rows:,} rows in {run.seconds:.1f} s = {run.rate:,.0f} rows/s")
    best = {name: max(r.rate for r in runs if r.contender == name) for name in {r.contender for r in runs}}
    return {
        "workload": workload.name,
        "rows": runs[0].rows,
        "results": runs[0].check[0],
        "rows_per_s": {name: round(rate) for name, rate in best.items()},
        "equal": len({run.check for run in runs}) == 1,
        "flink_backend": backend,
    }


def ours(spark: SparkSession, workload: engine.Workload, inputs: Inputs, work: Path) -> PeerRun:
    found = engine.run_ours(spark, workload, _many(inputs), work / "ours", check=_check_of(inputs))
    return PeerRun("godwit", found.rows, found.seconds, found.check)


def native(spark: SparkSession, workload: engine.Workload, inputs: Inputs, work: Path) -> PeerRun:
    provider = workload.providers[0]  # the better one of the engine's full run
    found = engine.run_native(spark, workload, _many(inputs), work / "native", provider, check=_check_of(inputs))
    return PeerRun("spark", found.rows, found.seconds, found.check, provider or "")


def flink_run(
    spark: SparkSession,
    flink: Flink,
    workload: engine.Workload,
    inputs: Inputs,
    work: Path,
    backend: str,
    interval: str = INTERVALS[0],
) -> PeerRun:
    columns, sql = FLINK[workload.name]
    output = work / "flink"
    sources = [_SOURCE.format(name=name, path=one.few.as_uri()) for name, one in inputs.items()]
    statements = [*sources, _SINK.format(columns=columns, path=output.as_uri()), f"INSERT INTO results {sql}"]
    readers = max(one.readers for one in inputs.values())
    options = {"state.backend.type": backend, "execution.checkpointing.interval": interval}
    answer = flink.ask("run", statements=statements, options={**options, "parallelism.default": readers})
    check = _check_of(inputs)(spark.read.parquet(str(output)))
    shutil.rmtree(output)
    seconds = flink.job_seconds(answer["job"])
    return PeerRun("flink", sum(one.rows for one in inputs.values()), seconds, check, backend)


def _better(spark: SparkSession, flink: Flink, workload: engine.Workload, warm: Inputs, work: Path) -> str:
    """The state backend that is faster once both are warm; a filter has no state."""
    if workload.name == "filter":
        flink_run(spark, flink, workload, warm, work, BACKENDS[0])
        return BACKENDS[0]
    took = {}
    for _ in range(2):
        for backend in BACKENDS:
            took[backend] = flink_run(spark, flink, workload, warm, work, backend).seconds
    return min(took, key=lambda backend: took[backend])


def _many(inputs: Inputs) -> engine.Inputs:
    return {name: (one.stream, one.many) for name, one in inputs.items()}


def _check_of(inputs: Inputs) -> Any:
    """(rows, checksum) without the windows that only the last rows are in: Flink closes those too."""
    last = min(one.last_us for one in inputs.values())

    def check(results: DataFrame) -> tuple[int, int]:
        # Flink's files do not say that their times are UTC's.
        times = [F.col(name).cast("timestamp").alias(name) for name, kind in results.dtypes if "timestamp" in kind]
        others = [F.col(name) for name, kind in results.dtypes if "timestamp" not in kind]
        found = results.select(*times, *others)
        if "since" in found.columns:
            found = found.where(F.unix_micros("since") <= last - 60_000_000)
        return engine.checksum(found)

    return check
