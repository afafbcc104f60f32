"""The same rows a second through 1, 8 and 32 different shapes in 3 regions: what a shape more costs the others.

Every other one is a window of 2 s; latency is that of the filters, which answer at once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.latency.load import Load, Measured, measure, quantiles
from godwit.engine.session import spark_session

COUNTS = (1, 8, 32)


def shapes(count: int) -> dict[str, str]:
    """So many queries that differ in more than literals."""
    return {f"q{k}": _filter(k // 2) if k % 2 == 0 else _window(k // 2) for k in range(count)}


def _filter(k: int) -> str:
    return f"SELECT device, {_nested(k)} AS value, ts AS at FROM readings WHERE value >= 20"


def _window(k: int) -> str:
    return (
        f"SELECT device, sum({_nested(k)}) AS total, count(*) AS n, window.end AS at "
        "FROM readings WHERE value >= 20 GROUP BY device, window(ts, '2 seconds')"
    )


def _nested(k: int) -> str:
    return "abs(" * k + "value" + ")" * k


def run(spark: SparkSession, count: int, seconds: float, warm_s: float = 8.0) -> Measured:
    with tempfile.TemporaryDirectory(prefix="godwit-latency-") as folder:
        return measure(spark, Path(folder) / "fleet", Load(shapes(count), seconds, warm_s, at_once=True))


def figures(
    spark: SparkSession, counts: Sequence[int] = COUNTS, seconds: float = 20.0, warm_s: float = 8.0
) -> Iterator[dict[str, Any]]:
    """p50 from push to callback for each number of shapes; the target is on the last against the first."""
    found = {count: run(spark, count, seconds, warm_s) for count in counts}
    p50 = {count: quantiles(of_filters(one))[0] for count, one in found.items()}
    one, most = p50[counts[0]], p50[counts[-1]]
    ratio = round(most / one, 2) if one and most else None
    told = ", ".join(f"{count}: {ms}" for count, ms in p50.items())
    worst = next((m.oracle for m in found.values() if m.oracle != "equal"), "equal")
    yield {
        "experiment": f"latency/{counts[-1]} shapes against {counts[0]}",
        "ours": most,
        "baseline": one,
        "ratio": ratio,
        "target": "<= 3",
        "met": ratio is not None and ratio <= 3,
        "oracle": worst,
        "note": f"ms, p50 from push to callback of the filters by number of shapes: {told}; 200 rows/s, 3 regions; "
        f"cores: {', '.join(f'{m.cores:.2f}' for m in found.values())}; {found[counts[0]].note}",
    }


def of_filters(found: Measured) -> list[float]:
    return [ms for name, values in found.since_push.items() if int(name[1:]) % 2 == 0 for ms in values]


if __name__ == "__main__":
    for figure in figures(spark_session(app="godwit bench")):
        print(json.dumps(figure), flush=True)
