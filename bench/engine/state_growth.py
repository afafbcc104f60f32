"""Micro-batch time while the state grows: an aggregate's keys, a join's rows.

The state is filled with large micro-batches up to each size; there, some small ones of the same size every time are
measured. Windows and bands are so long that nothing closes or dies meanwhile: the state only grows. At the end the
aggregate's window closes, all keys at once.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench._harness import say
from bench._memory import peak_memory
from bench.engine import data, ground
from godwit.api.fleet import Fleet

AGGREGATE = """SELECT key, count(*) AS n, sum(value) AS total, window.end AS until
               FROM readings GROUP BY key, window(ts, '2 hours')"""
JOIN = """SELECT a.key, a.value, b.value AS answer, a.ts, b.ts AS met FROM asked a JOIN answered b
          ON a.key = b.key AND b.ts BETWEEN a.ts - INTERVAL 1 HOUR AND a.ts + INTERVAL 1 HOUR"""
KEYS = (10_000, 100_000, 1_000_000, 10_000_000)
JOIN_ROWS = (10_000, 100_000, 1_000_000, 5_000_000)
#: rows of a micro-batch that fills, and of one that is measured (few for the join: they become part of its state)
FILL, PROBE, JOIN_PROBE, PROBES = 500_000, 50_000, 2_000, 6
#: micro-batches before everything: plans compile
WARM = 5
#: of event time over which the state is spread: half an hour, from an exact hour on
SPAN_US = 1_800_000_000


class Source:
    """Rows whose event time goes on steadily, up to `SPAN_US` after so many as there will be in all."""

    def __init__(self, total: int) -> None:
        self.total, self._sent, self._rng = total, 0, np.random.default_rng(data.SEED)

    def draw(self, keys: int, rows: int) -> np.ndarray:
        return self._rng.integers(0, keys, rows)

    def rows(self, keys: np.ndarray) -> dict[str, pa.Table]:
        return {"readings": self._table(keys)}

    def sides(self, rows: int, keys: int) -> dict[str, pa.Table]:
        return {name: self._table(self.draw(keys, rows // 2)) for name in ("asked", "answered")}

    def _table(self, keys: np.ndarray) -> pa.Table:
        at = data.START_US + (self._sent + np.arange(len(keys))) * SPAN_US // self.total
        self._sent += len(keys)
        return data.table(self.draw(data.DEVICES, len(keys)), keys, self.draw(1000, len(keys)), at)


def measure(
    spark: SparkSession, work: Path, keys: Sequence[int] = KEYS, join_rows: Sequence[int] = JOIN_ROWS
) -> dict[str, Any]:
    with peak_memory() as peak:
        aggregate = _aggregate(spark, work / "aggregate", keys)
    with peak_memory() as join_peak:
        join = _join(spark, work / "join", join_rows)
    return {
        "aggregate": aggregate | {"memory": peak.to_json()},
        "join": {"levels": join, "memory": join_peak.to_json()},
    }


def _aggregate(spark: SparkSession, root: Path, levels: Sequence[int]) -> dict[str, Any]:
    source = Source(levels[-1] + PROBE * (WARM + PROBES * len(levels)))
    with ground.fleet(spark, root, ["readings"], max_rows=10 * FILL) as fleet:
        query = fleet.submit(AGGREGATE, "q")
        for _ in range(WARM):
            batch(fleet, source.rows(source.draw(100, PROBE)))
        found, have = [], 0
        for level in levels:
            filled = [batch(fleet, source.rows(keys)) for keys in fill(have, level)]
            have = level
            took = [batch(fleet, source.rows(source.draw(level, PROBE))) for _ in range(PROBES)]
            found.append(_level("keys", level, took, filled))
        fleet.close_sources()
        began = time.perf_counter()
        fleet.process_available(timeout=900)
        closing = time.perf_counter() - began
        groups = query.results().groupBy().sum("n").collect()[0][0], query.results().count()
    shutil.rmtree(root)
    say(f"  closing {levels[-1]:,} keys took {closing:.1f} s")
    expected = (source.total, levels[-1])
    return {"levels": found, "closing_s": round(closing, 2), "oracle": "equal" if groups == expected else "DIFFERENT"}


def _join(spark: SparkSession, root: Path, levels: Sequence[int]) -> list[dict[str, Any]]:
    own = JOIN_PROBE * (WARM + PROBES * len(levels))
    source = Source(levels[-1] + own)
    with ground.fleet(spark, root, ["asked", "answered"], max_rows=10 * FILL) as fleet:
        fleet.submit(JOIN, "q")
        for _ in range(WARM):
            batch(fleet, source.sides(JOIN_PROBE, levels[-1]))
        found, have = [], WARM * JOIN_PROBE
        for level in levels:
            # Keys are drawn from as many as there are rows at the end: about one partner a row, whatever the level.
            sizes = [len(keys) for keys in fill(have, level)]
            filled = [batch(fleet, source.sides(size, levels[-1])) for size in sizes]
            took = [batch(fleet, source.sides(JOIN_PROBE, levels[-1])) for _ in range(PROBES)]
            have = max(level, have) + JOIN_PROBE * PROBES
            found.append(_level("rows", level, took, filled))
    shutil.rmtree(root)
    return found


def fill(have: int, want: int) -> Iterator[np.ndarray]:
    for start in range(have, want, FILL):
        yield np.arange(start, min(start + FILL, want))


def batch(fleet: Fleet, pushes: Mapping[str, pa.Table]) -> float:
    """Push, work it off; milliseconds of the micro-batch as its commit says."""
    runner = ground.runner_of(fleet, "q")
    before = runner.commits.last
    for stream, table in pushes.items():
        fleet.push(stream, table)
    fleet.process_available(timeout=600)
    return sum(ground.times(runner, before))


def _level(what: str, size: int, took: Sequence[float], filled: Sequence[float]) -> dict[str, Any]:
    median, worst = statistics.median(took), max(took)
    say(f"  {size:,} {what}: median {median:.0f} ms, worst {worst:.0f} ms a micro-batch")
    return {
        what: size,
        "median_ms": round(median, 1),
        "worst_ms": round(worst, 1),
        "fill_median_ms": round(statistics.median(filled), 1) if filled else None,
        "fill_worst_ms": round(max(filled), 1) if filled else None,
    }
