"""One cell with plain Spark streaming queries that are restarted when a source turns up somewhere else."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from bench.isqd.figures import changes
from bench.isqd.inputs import Cut, Stage
from bench.isqd.latency import Latencies
from bench.isqd.play import TICK_MS, first_rows
from bench.isqd.workload import SCHEMA, STREAM, Asked, Readings
from godwit.api.oracle import compare
from godwit.baselines.native_restart import NativeRestart, NativeStream
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.mobility.driver import Driver, Feed

NAME = "native-restart"
#: longer than any restart takes, so that Spark drops no row that came while a query was down
WATERMARK = "60 seconds"
#: who has not read everything so long after the end does not survive
CATCH_UP_S = 60.0


def play(spark: SparkSession, folder: Path, stage: Stage, cut: Cut, queries: list[Asked], rate: int) -> dict[str, Any]:
    """The same trace and rows as the fleet gets."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a query that is stopped in a call would print its stack
    shutil.rmtree(folder, ignore_errors=True)
    native = NativeRestart(spark, folder, NativeStream(STREAM, SCHEMA, "ts", "device", WATERMARK))
    for query in queries:
        native.add(query.name, query.sql, query.devices)
    initial = dict(stage.trace.initial())
    native.start(initial)
    native.push(STREAM, next(first_rows(stage, rate)), initial)
    for begun in native.queries:
        assert begun.running is not None
        begun.running.processAllAvailable()
    start = time.time()
    driver = Driver(
        stage.trace,
        [Feed(STREAM, Readings(int(start * 1000), rate), 0)],
        native,
        start_ms=int(start * 1000),
        tick_ms=min(TICK_MS, round(cut.every * 1000)),
        watch=lambda _: _check(native),
        attached=initial,
    )
    driver.play()
    over = time.time()
    done = native.end(timeout=CATCH_UP_S)
    found = _latencies(native, start, driver.start_ms + cut.total * 1000)
    verdicts = []
    for answered in native.queries:
        want, have = native.oracle(answered.sql), native.results(answered)
        verdicts.append(compare(QueryId(answered.name), want, want.iloc[:0] if have is None else have))
    result = {
        **changes([(b.arrived, b.in_force) for b in native.batches], over),
        "device_moves": driver.changes,
        "reconfigurations": len(native.rounds),
        "restarts": native.restarts,
        "placement_s": 0.0,
        "deployment_s": round(sum(native.rounds), 4),
        "aggregated_s": round(sum(native.rounds), 4),
        "latency": found.summary(cut.calm, cut.changes),
        "rows": driver.rows,
        "late_s": round(max(over - start - cut.total, 0.0), 2),
        "oracle": "equal" if all(v.equal for v in verdicts) else "different" if done else "not caught up",
        "verdicts": [str(v) for v in verdicts if not v.equal],
    }
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _check(native: NativeRestart) -> None:
    if native.failure is not None:
        msg = f"a plain Spark query failed at its restart: {native.failure}"
        raise DeploymentError(msg) from native.failure


def _latencies(native: NativeRestart, start: float, end_ms: float) -> Latencies:
    """Of all results but those that only close what is open at the end."""
    found = Latencies(start)
    for query in native.queries:
        for wall, rows in query.batches.values():
            if len(rows):
                at = pd.to_datetime(rows["at"]).to_numpy("datetime64[us]").astype("int64") / 1000
                found.add(wall, at[at <= end_ms])
    return found
