"""One plan over 200 rows, from Arrow to Arrow: as a Spark job, and directly on the calling thread.

Both run the same cached physical plan, in turn, so that a busy machine is as busy for one as for the other.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from godwit.engine.lazy_frame import Frame, LazyFrame, joined, then
from godwit.engine.plan_cache import Prepared, java_of

ARROW = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
ROWS = 200


def _window_sums(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k", F.window("ts", "10 seconds").alias("w")).agg(
        F.sum("v").alias("v"), F.count("*").alias("n")
    )


def _band_join(rows: LazyFrame) -> Frame:
    other = rows.selectExpr("k AS k2", "v AS v2", "ts AS ts2").coalesce(1).hint("shuffle_hash")
    return joined(rows.coalesce(1), other, "k = k2 AND ts2 >= ts AND ts2 <= ts + INTERVAL 5 SECONDS")


PLANS: dict[str, Callable[[LazyFrame], Frame]] = {
    "filter": lambda rows: rows.where("v % 3 <> 0").selectExpr("k", "v * 2 AS v", "ts"),
    "window sums": lambda rows: then("bench sums", _window_sums, rows.coalesce(1)),
    "band join": _band_join,
}


def plans(spark: SparkSession, rounds: int = 60, seed: int = 7) -> dict[str, dict[str, Any]]:
    """Milliseconds of each plan, both ways: best and median, and whether the answers are equal."""
    assert java_of(spark).direct is not None, "direct plans are off here"
    return {name: _measure(spark, make, rounds, seed) for name, make in PLANS.items()}


def _measure(spark: SparkSession, make: Callable[[LazyFrame], Frame], rounds: int, seed: int) -> dict[str, Any]:
    schema = from_arrow_schema(ARROW)
    took: dict[str, list[float]] = {"job": [], "direct": []}
    equal = True
    for n in range(rounds + 5):
        numbers = range(seed + n, seed + n + ROWS)
        table = pa.table([[f"k{i % 20}" for i in numbers], list(numbers), [i * 100_000 for i in numbers]], schema=ARROW)
        frame = make(LazyFrame.of(spark, table, schema))
        assert isinstance(frame, LazyFrame)
        answers = {}
        for way in ("job", "direct") if n % 2 else ("direct", "job"):
            prepared, began = frame._prepared(), time.perf_counter()
            answers[way] = (_as_job(prepared, frame) if way == "job" else prepared.run(frame.leaves)).to_pylist()
            if n >= 5:  # the first ones compile
                took[way].append((time.perf_counter() - began) * 1000)
        equal = equal and sorted(map(repr, answers["job"])) == sorted(map(repr, answers["direct"]))
    best = {way: round(min(times), 2) for way, times in took.items()}
    median = {way: round(statistics.median(times), 2) for way, times in took.items()}
    return {"best": best, "median": median, "oracle": "equal" if equal else "different"}


def _as_job(prepared: Prepared, frame: LazyFrame) -> pa.Table:
    found = prepared.run(frame.leaves, direct=False)
    assert found is not None
    return found
