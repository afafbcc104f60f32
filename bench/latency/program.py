"""A program of a user: 50 devices, 200 rows a second in pushes of 20, a hand-over a second, 2 shapes, 3 regions.

`python -m bench.latency.program [--seconds 25]` prints one JSON line per figure. GODWIT_ENGINE=jobs gives the baseline.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.latency.load import Load, Measured, measure, quantiles
from godwit.engine.session import spark_session

FILTER = "SELECT device, value, ts AS at FROM readings WHERE value >= 20"
WINDOW = """SELECT device, sum(value) AS total, count(*) AS n, window.end AS at
FROM readings GROUP BY device, window(ts, '2 seconds')"""
SECONDS = 25.0


def run(spark: SparkSession, seconds: float = SECONDS) -> Measured:
    load = Load({"large": FILTER, "totals": WINDOW}, seconds=seconds, moves_per_s=1.0)
    with tempfile.TemporaryDirectory(prefix="godwit-latency-") as folder:
        return measure(spark, Path(folder) / "fleet", load)


def figures(found: Measured, baseline: Measured | None = None) -> Iterator[dict[str, Any]]:
    """One line each, with its target; baseline: engine mode `jobs`, where it was run."""
    for name, unit, at_most, value in _table(found):
        other = next((v for n, _, _, v in _table(baseline) if n == name), None) if baseline else None
        yield {
            "experiment": f"latency/program {name}",
            "ours": value,
            "baseline": other,
            "ratio": round(other / value, 2) if other and value else None,
            "target": at_most,
            "met": value is not None and value <= at_most,
            "oracle": found.oracle,
            "note": f"{unit}; {_note(name, found)}" + ("; baseline: engine mode `jobs`" if other else ""),
        }


def _table(found: Measured) -> list[tuple[str, str, float, float | None]]:
    """(figure, unit, at most, measured)"""
    result, push, attach = map(quantiles, (found.all_since_push(), found.push_ms, found.attach_ms))
    return [
        ("push to callback p50", "ms", 100, result[0]),
        ("push to callback p95", "ms", 250, result[1]),
        ("one push p50", "ms", 2, push[0]),
        ("one push p95", "ms", 10, push[1]),
        ("one attach p50", "ms", 5, attach[0]),
        ("one attach p95", "ms", 20, attach[1]),
        ("CPU", "% of a core, with Spark", 40, round(found.cores * 100, 1)),
        ("files", "written per minute", 300, found.files_per_minute),
    ]


def _note(name: str, found: Measured) -> str:
    if not name.startswith("push to callback"):
        return found.note
    parts = {query: quantiles(values) for query, values in found.since_push.items()}
    told = ", ".join(f"{query} {p50} / {p95}" for query, (p50, p95) in parts.items())
    return f"{found.results} results; p50 / p95 of the filter and of the 2 s windows: {told}; {found.note}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency.program", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    for figure in figures(run(spark_session(app="godwit bench"), options.seconds)):
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()
