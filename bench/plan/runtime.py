"""A change of plan on Spark: the longest gap between steps under each strategy, and the oracle's verdict.

Rows are pushed step by step, each step a share of a second of event time; nothing is emulated. Rates are the setting's,
scaled up by `scale`, and matches are made as much rarer, so that states grow and results do not. The first change of a
process also pays for compiling the new plan. Needs `Fleet.replan`.
"""

from __future__ import annotations

import datetime as dt
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.plan.settings import LINKS, Setting
from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STEP_S = 0.5


def sql(window_ms: int) -> str:
    """Figure 4's query: one window between all pairs."""

    def near(x: str, y: str) -> str:
        half = f"INTERVAL {window_ms} MILLISECONDS"
        return f"{x}.ts BETWEEN {y}.ts - {half} AND {y}.ts + {half}"

    return (
        f"SELECT a.n AS an, b.n AS bn, c.n AS cn, d.n AS dn FROM a JOIN b ON a.ab = b.ab AND {near('b', 'a')} "
        f"JOIN c ON b.bc = c.bc AND {near('c', 'b')} AND {near('c', 'a')} "
        f"JOIN d ON c.cd = d.cd AND {near('d', 'c')} AND {near('d', 'b')} AND {near('d', 'a')}"
    )


def run(spark: SparkSession, setting: Setting, strategy: str, scale: float, seconds: float) -> dict[str, Any]:
    """One change at half of the time; `strategy` "none": the old plan throughout."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as folder, Fleet(Path(folder), spark, retention=Retention(keep=True)) as fleet:
        fleet.topology.add(Topology.of([Site("here")]))  # type: ignore[arg-type]
        for alias in "abcd":
            fleet.stream(alias, "n int, ab int, bc int, cd int, ts timestamp", site="here", ahead=None)
        query = fleet.submit(sql(setting.window_ms), "q")
        steps, gaps, called = int(seconds / STEP_S), list[float](), 0.0
        for step in range(steps):
            for alias in "abcd":
                fleet.push(alias, _rows(setting, alias, step, scale, rng))
            begun = time.perf_counter()
            if step == steps // 2 and strategy != "none":
                fleet.replan("q", order="(b JOIN c) JOIN d JOIN a", strategy=strategy)
                called = time.perf_counter() - begun
            fleet.process_available()
            gaps.append(time.perf_counter() - begun)
        fleet.close_sources()
        fleet.process_available()
        verdict = query.verdict()
        calm = sorted(gaps[steps // 4 : steps // 2])
        return {
            "strategy": strategy,
            "call_s": called,
            "calm_gap_s": calm[len(calm) // 2],
            "longest_gap_s": max(gaps[steps // 2 : steps // 2 + 4]),
            "results": verdict.got,
            "oracle": "equal" if verdict.equal else "different",
        }


def _rows(setting: Setting, alias: str, step: int, scale: float, rng: random.Random) -> list[dict[str, Any]]:
    gap_s = setting.gaps_ms["abcd".index(alias)] / 1000 / scale
    rows, at = list[dict[str, Any]](), rng.expovariate(1 / gap_s)
    while at < STEP_S:
        keys = {
            link.lower(): rng.randrange(max(1, round(scale / sigma)))
            for link, sigma in zip(LINKS, setting.sigma, strict=True)
        }
        moment = START + dt.timedelta(seconds=step * STEP_S + at)
        rows.append({"n": rng.randrange(10**6), **keys, "ts": moment})
        at += rng.expovariate(1 / gap_s)
    return rows
