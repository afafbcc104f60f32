"""What a hopping window costs beside a tumbling one of the same length, over the same files.

A minute every second: each row is in 60 windows, and is stored once. There are few keys, so that what is measured is
taking rows in; that a hopping window has 60 results where a tumbling one has one is in the time, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.engine import data, throughput

SQL = """SELECT key, count(*) AS n, sum(value) AS total, max(value) AS most, window.end AS until
         FROM readings GROUP BY key, window(ts, {window})"""
WINDOWS = {"tumbling": "'1 minute'", "hopping": "'1 minute', '1 second'"}
KEYS, ROUNDS, TARGET = 20, 2, 1.3


def measure(spark: SparkSession, work: Path, rows: int) -> dict[str, Any]:
    """Seconds of each, the least of a few rounds, in turns."""
    stream = data.Stream("readings", keys=KEYS, rows_a_file=rows // 4, files_a_batch=1)
    data.write(stream, work / "rows", rows)
    inputs = {"readings": (stream, work / "rows")}
    took: dict[str, list[float]] = {name: [] for name in WINDOWS}
    for _ in range(ROUNDS + 1):  # the first one warms up
        for name, window in WINDOWS.items():
            workload = throughput.Workload(name, SQL.format(window=window), (stream,), target=TARGET)
            took[name].append(throughput.run_ours(spark, workload, inputs, work / name).seconds)
    shutil.rmtree(work / "rows")
    best = {name: min(seconds[1:]) for name, seconds in took.items()}
    return {"rows": rows, "seconds": best, "ratio": round(best["hopping"] / best["tumbling"], 2)}
