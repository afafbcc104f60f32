"""The engine's headline figures in about two minutes on a quiet machine: the full experiments on fewer rows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._harness import headline
from bench.engine import ground, many_queries, throughput

ROWS = 2_000_000
NAMES = {"join": "join_throughput"}


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py."""
    spark = ground.session()
    with tempfile.TemporaryDirectory() as folder:
        for result in throughput.measure(spark, Path(folder) / "throughput", ROWS, better=True):
            figure = result["headline"]
            name = figure["experiment"].removeprefix("engine/")
            yield figure | {"experiment": f"engine/{NAMES.get(name, name)}"}
        yield queries(many_queries.measure(spark, Path(folder) / "queries", counts=(1_000, 10), batches=10, back=False))


def queries(result: dict[str, Any]) -> dict[str, Any]:
    """Many queries as a headline: how many times as long a micro-batch takes with the most queries as with ten."""
    ten = next(case for case in result["cases"] if case["queries"] == 10)
    most = max(result["cases"], key=lambda case: case["queries"])
    return headline(
        "engine/many_queries",
        most["median_ms"],
        ten["median_ms"],
        "at most 3",
        met=result["ratio_10_to_most"] <= 3,
        oracle="equal" if result["same_results"] else "DIFFERENT",
        note=f"ms a micro-batch of {most['rows_a_batch']:,} rows, {most['queries']:,} queries against 10",
    )


if __name__ == "__main__":
    import json

    for each in figures():
        print(json.dumps(each), flush=True)
