"""Beyond the paper: a million keys that are placed one by one, against `rest` alone: how long a micro-batch takes.

No row comes of the keys that are placed, so that the same work is done in the same places before and after; each row's
key is looked up among them all the same. In short: 1,000 and 100,000 keys.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.falcon.ground import edge
from bench.falcon.play import Cell, Cut, Played, play_with
from bench.falcon.questions import QUESTIONS, Question
from godwit.api.fleet import Fleet

TITLE = "Beyond: keys that are placed one by one, against rest"
VARIES = "keys that are placed"


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    return [measured(count, cut) for count in ((1000, 100_000) if short else (1000, 100_000, 1_000_000))]


def measured(count: int, cut: Cut) -> dict[str, Any]:
    cell, asked = Cell("routing", "tm", "auto", count, round_trip_ms=0.0), QUESTIONS["tm"]
    steps: list[tuple[float, float]] = []
    placed = {"at": 0.0, "took_s": 0.0}

    def drive(fleet: Fleet, played: Played) -> None:
        fleet.pool.follow(lambda runner, number, record: steps.append(_step(record)))
        time.sleep(max(played.start + cut.warm_s + cut.calm_s - time.time(), 0.0))
        began = time.time()
        keys = pa.array([f"x{k}" for k in range(count)])
        query, operator = asked.operators(fleet)[0]
        fleet.migrate(query, keys=keys, to=edge(0), operator=operator)
        while fleet.plane.keys.busy:
            time.sleep(0.01)
        placed.update(at=time.time(), took_s=round(time.time() - began, 2))

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, Any]:
        calm = played.start + cut.warm_s
        before = [ms for at, ms in steps if calm <= at < calm + cut.calm_s and ms]
        after = [ms for at, ms in steps if at > placed["at"] + 1.0 and ms]
        known = [round(float(np.median(found)), 1) if found else None for found in (before, after)]
        return {
            "rest_batch_ms": known[0],
            "batch_ms": known[1],
            "ratio": round(known[1] / known[0], 2) if all(known) else None,  # type: ignore[operator]
            "placing_s": placed["took_s"],
            "target": "at most 1.5x",
        }

    return play_with(cell, cut, asked, drive, measure)


def _step(record: dict[str, Any]) -> tuple[float, float]:
    return record["metrics"]["wall"], record["metrics"]["took_ms"] if record["metrics"]["rows_in"] else 0.0
