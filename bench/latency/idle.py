"""An idle fleet: 32 shapes in 3 regions, and nobody sends. What it costs, in percent of one core."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.latency.load import STREAM, Load, fleet_of
from bench.latency.shapes import shapes
from bench.latency.usage import CpuTime
from godwit.engine.session import spark_session


def run(spark: SparkSession, count: int = 32, seconds: float = 10.0) -> float:
    """Cores used, after every shape has seen rows once and all of it is answered."""
    load = Load(shapes(count), seconds=0.0, at_once=True)
    with tempfile.TemporaryDirectory(prefix="godwit-latency-") as folder, fleet_of(spark, Path(folder), load) as fleet:
        fleet.start()
        now = dt.datetime.now(dt.UTC)
        rows = [{"device": f"d{k}", "value": 50, "ts": now} for k in range(load.devices)]
        fleet.push(STREAM, rows)
        fleet.process_available()
        time.sleep(2.0)  # compilers and collectors in the background come to rest
        cpu = CpuTime()
        time.sleep(seconds)
        cores = cpu.cores()
        fleet.check()
    return cores


def figures(spark: SparkSession, seconds: float = 10.0, count: int = 32) -> Iterator[dict[str, Any]]:
    cores = run(spark, count, seconds)
    yield {
        "experiment": "latency/idle fleet",
        "ours": round(cores * 100, 1),
        "baseline": None,
        "ratio": None,
        "target": 2,
        "met": cores <= 0.02,
        "note": f"% of a core, with Spark, over {seconds:g} s; {count} shapes in 3 regions, 50 devices, nobody sends",
    }


if __name__ == "__main__":
    for figure in figures(spark_session(app="godwit bench")):
        print(json.dumps(figure), flush=True)
