"""Beyond the paper: 1,000 migrations of single keys a minute under load. p99 of the latency against that of the calm.

Windows (nq7's maximum per auction, delta), for `auto` takes delta there; and totals (tm, falcon).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bench.falcon.ground import CLOUD, edge
from bench.falcon.measures import Latencies
from bench.falcon.play import Cell, Cut, Played, latencies, play_with
from bench.falcon.questions import QUESTIONS, Question
from godwit.api.fleet import Fleet

TITLE = "Beyond: 1,000 migrations of single keys a minute"
VARIES = "workload"
A_MINUTE = 1000
#: enough that a key has arrived before it is asked to go back
KEYS = 200


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    return [measured(workload, cut) for workload in ("nq7", "tm")]


def measured(workload: str, cut: Cut) -> dict[str, Any]:
    cell = Cell("migration_rate", workload, "auto", workload, keys=KEYS)
    asked = replace(QUESTIONS[workload], count=KEYS)
    seconds = max(cut.moves * cut.after_s - 1.0, 4.0)
    counted = {"asked": 0, "late": 0}

    def drive(fleet: Fleet, played: Played) -> None:
        begin = played.start + cut.warm_s + cut.calm_s
        time.sleep(max(begin - time.time(), 0.0))
        number = 0
        while (now := time.time()) < begin + seconds:
            key = asked.keys[number % len(asked.keys)]
            to = edge(0) if number // len(asked.keys) % 2 == 0 else CLOUD
            query, operator = asked.operators(fleet)[0]
            fleet.migrate(query, keys=[key], to=to, operator=operator)
            number += 1
            counted["asked"] = number
            counted["late"] = fleet.plane.keys.done
            time.sleep(max(begin + number * 60 / A_MINUTE - time.time(), 0.0) if now < begin + seconds else 0.0)

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, Any]:
        seen = latencies(asked, played)
        calm = played.start + cut.warm_s
        quiet = seen.between(calm, calm + cut.calm_s - 0.2)
        busy = seen.between(calm + cut.calm_s, calm + cut.calm_s + seconds)
        p99 = {"calm_p99_ms": _p99(quiet), "p99_ms": _p99(busy)}
        both = all(p99.values())
        return {
            **p99,
            "ratio": round(p99["p99_ms"] / p99["calm_p99_ms"], 2) if both else None,  # type: ignore[operator]
            "asked": counted["asked"],
            "asked_per_minute": round(counted["asked"] / seconds * 60),
            "done_per_minute": round(counted["late"] / seconds * 60),
            "done_in_the_end": fleet.plane.keys.done,
            "epochs": int(fleet.plane.epoch),
            "target": "p99 at most 1.1x of calm",
        }

    return play_with(cell, cut, asked, drive, measure)


def _p99(seen: Latencies) -> float | None:
    return round(float(np.quantile(seen.ms, 0.99)), 1) if len(seen.ms) else None
