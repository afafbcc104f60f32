"""p50 from push to callback with 10 and with 1,000 queries of one shape, over the same rows of 2,000 devices.

The queries share the devices out among them, so that the number of results is the same.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.latency.load import Load, Measured, measure, quantiles
from godwit.engine.session import spark_session

DEVICES = 2_000
FEW, MANY = 10, 1_000


def queries(count: int) -> dict[str, str]:
    share = DEVICES // count
    return {f"q{k}": _sql(k * share, share) for k in range(count)}


def _sql(first: int, count: int) -> str:
    names = ", ".join(f"'d{k}'" for k in range(first, first + count))
    return f"SELECT device, value, ts AS at FROM readings WHERE device IN ({names}) AND value >= 20"


def run(spark: SparkSession, count: int, seconds: float, warm_s: float = 8.0) -> Measured:
    load = Load(queries(count), seconds, warm_s, devices=DEVICES, rows_per_s=1000, one_device=False, at_once=True)
    with tempfile.TemporaryDirectory(prefix="godwit-latency-") as folder:
        return measure(spark, Path(folder) / "fleet", load)


def figures(spark: SparkSession, seconds: float = 20.0, warm_s: float = 8.0) -> Iterator[dict[str, Any]]:
    few, many = (run(spark, count, seconds, warm_s) for count in (FEW, MANY))
    a, b = quantiles(few.all_since_push())[0], quantiles(many.all_since_push())[0]
    ratio = round(b / a, 2) if a and b else None
    yield {
        "experiment": f"latency/{MANY} queries against {FEW}",
        "ours": b,
        "baseline": a,
        "ratio": ratio,
        "target": "<= 2",
        "met": ratio is not None and ratio <= 2,
        "oracle": many.oracle if many.oracle != "equal" else few.oracle,
        "note": f"ms, p50 from push to callback, a callback per query; one shape, {DEVICES} devices, 1,000 rows/s, 3 "
        f"regions; cores {few.cores:.2f} and {many.cores:.2f}; {many.note}",
    }


if __name__ == "__main__":
    for figure in figures(spark_session(app="godwit bench")):
        print(json.dumps(figure), flush=True)
