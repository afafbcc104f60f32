"""Beyond the paper: totals of very many keys, kept for ever. A micro-batch touches 200 of them: how long it takes.

All keys get a row first. Then micro-batches of 200 rows of keys chosen at random, one after the other; the first ones
are not counted (indexes are made, plans compiled).
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from bench._harness import machine, say
from bench.falcon.ground import CLOUD, fleet_on
from bench.falcon.questions import QUERY, QUESTIONS
from bench.falcon.sending import Cell, Cut
from godwit.workloads import Settings

TITLE = "Beyond: totals of very many keys"
VARIES = "keys"
ROWS, BATCHES, UNCOUNTED = 200, 40, 10
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    return [measured(count, cut) for count in ((10_000, 100_000) if short else (10_000, 100_000, 1_000_000))]


def measured(count: int, cut: Cut) -> dict[str, Any]:
    cell, asked = Cell("many_totals", "tm", count, round_trip_ms=0.0), QUESTIONS["tm"]
    rng, began, took = np.random.default_rng(7), time.time(), []
    with fleet_on(1, 0.0) as fleet:
        asked.workload.declare(fleet, Settings(), [CLOUD])
        fleet.submit(asked.sql, QUERY, sink=CLOUD)
        for first in range(0, count, 250_000):
            fleet.push("speeds", _rows(np.arange(first, min(first + 250_000, count)), 0))
            fleet.process_available()
        for number in range(BATCHES):
            fleet.push("speeds", _rows(rng.integers(0, count, ROWS), number + 1))
            at = time.perf_counter()
            fleet.process_available()
            took.append((time.perf_counter() - at) * 1000)
        fleet.close_sources()
        fleet.process_available()
        verdict = fleet.query(QUERY).verdict()
    counted = np.asarray(took[UNCOUNTED:])
    found = {
        "cell": cell.named("none"),
        "cut": asdict(cut),
        "machine": machine(),
        "batch_ms": round(float(np.median(counted)), 1),
        "p95_ms": round(float(np.quantile(counted, 0.95)), 1),
        "longest_ms": round(max(took), 1),
        "target": "flat within 2x",
        "oracle": "equal" if verdict.equal else f"different: {verdict}",
        "took_s": round(time.time() - began, 1),
    }
    say(f"many_totals {count}: {found['batch_ms']} ms, p95 {found['p95_ms']} ms; oracle {found['oracle']}")
    return found


def _rows(keys: np.ndarray, second: int) -> pa.Table:
    at = int((START + dt.timedelta(seconds=second)).timestamp() * 1e6)
    return pa.table(
        {
            "source": pa.repeat(pa.scalar("s0"), len(keys)),
            "vehicle": pa.array([f"v{key}" for key in keys]),
            "speed": pa.array(np.full(len(keys), 50.0)),
            "ts": pa.array(at + np.arange(len(keys)), pa.timestamp("us", tz="UTC")),
        }
    )
