"""Beyond the paper: a million keys that are placed one by one, against `rest` alone: how long a micro-batch takes.

First the operator is at the edge, where its rows come in, with all its keys. Then each key is placed there by name, and
the rest goes to the cloud: the same rows are processed in the same place, but each is looked up among all the keys, of
which it has one. In short: 1,000 and 1,000,000 keys.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.falcon.ground import CLOUD, edge
from bench.falcon.questions import QUESTIONS, Question
from bench.falcon.sending import Cell, Cut, Played, play_with, until
from godwit.api.fleet import Fleet

TITLE = "Beyond: keys that are placed one by one, against rest"
VARIES = "keys that are placed"
#: what follows the placing at once is not counted: segments are merged, indexes are made
SETTLE_S = 2.0


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    counts = (1000, 1_000_000) if short else (1000, 10_000, 100_000, 1_000_000)
    return [one for count in counts for one in measured(count, cut)]


def measured(count: int, cut: Cut) -> list[dict[str, Any]]:
    cell, asked = Cell("routing", "tm", count, round_trip_ms=0.0), replace(QUESTIONS["tm"], count=count)
    steps: list[tuple[float, float]] = []
    placed = {"began": 0.0, "at": 0.0}

    def prepare(fleet: Fleet, asked: Question) -> None:
        fleet.move(_places(fleet, asked, edge(0)))

    def drive(fleet: Fleet, played: Played) -> None:
        fleet.pool.follow(lambda runner, number, record: steps.append(_step(runner.region, record)))
        until(played.start + 2 * cut.warm_s + cut.busy_s)
        placed["began"] = time.time()
        query, operator = asked.operators(fleet)[0]
        fleet.move(_places(fleet, asked, CLOUD))
        fleet.migrate(query, keys=pa.array(asked.keys), to=edge(0), operator=operator)
        while fleet.plane.keys.busy:
            time.sleep(0.01)
        placed["at"] = time.time()
        time.sleep(SETTLE_S + cut.busy_s)

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, dict[str, Any]]:
        warm = placed["began"] - cut.busy_s / 2  # (Java gets faster for a while)
        before = [ms for at, ms in steps if warm <= at < placed["began"] and ms]
        after = [ms for at, ms in steps if at > placed["at"] + SETTLE_S and ms]
        known = [round(float(np.median(found)), 1) if found else None for found in (before, after)]
        told = {
            "rest_batch_ms": known[0],
            "batch_ms": known[1],
            "ratio": round(known[1] / known[0], 2) if all(known) else None,  # type: ignore[operator]
            "batches": [len(before), len(after)],
            "listed": len(fleet.deployment.key_routes[asked.operators(fleet)[0]].listed),  # type: ignore[index]
            "placing_s": round(placed["at"] - placed["began"], 2),
            "target": "at most 1.5x",
        }
        return {"auto": told}

    return play_with(cell, cut, asked, drive, measure, prepare)


def _places(fleet: Fleet, asked: Question, site: str) -> dict[str, str]:
    return {f"{query}/{operator}": site for query, operator in asked.operators(fleet)}


def _step(region: str, record: dict[str, Any]) -> tuple[float, float]:
    """Of micro-batches with rows, at the edge."""
    counts = record["metrics"]["rows_in"] and region == edge(0)
    return record["metrics"]["wall"], record["metrics"]["took_ms"] if counts else 0.0
