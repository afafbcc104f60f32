"""Beyond the paper: 1,000 migrations of single keys a minute under load. p99 of the latency against that of the calm.

Windows (nq7's maximum per auction, delta), for `auto` takes delta there; and totals (tm, falcon). Every other key is at
the edge and the others are in the cloud, in the calm as well; each goes to the other side in its turn.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bench.falcon.ground import CLOUD, edge
from bench.falcon.measures import Latencies
from bench.falcon.questions import QUESTIONS, Question
from bench.falcon.sending import Cell, Cut, Played, latencies, play_with, until
from godwit.api.fleet import Fleet

TITLE = "Beyond: 1,000 migrations of single keys a minute"
VARIES = "workload"
A_MINUTE = 1000
#: enough that a key has arrived before it is asked to go back
KEYS = 200
#: so many go there and back before anything counts
WARM = 40


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    return [one for workload in ("nq7", "tm") for one in measured(workload, cut)]


def measured(workload: str, cut: Cut) -> list[dict[str, Any]]:
    cell = Cell("migration_rate", workload, workload, keys=KEYS)
    asked = replace(QUESTIONS[workload], count=KEYS)
    seconds = cut.busy_s
    #: (time, how many are carried out)
    done: list[tuple[float, int]] = []
    sides = (edge(0), CLOUD)
    ways = [(key, sides[(turn + n + 1) % 2]) for turn in range(9) for n, key in enumerate(asked.keys)]
    ways = ways[: round(seconds * A_MINUTE / 60)]

    def drive(fleet: Fleet, played: Played) -> None:
        until(played.start + cut.warm_s)
        query, operator = asked.operators(fleet)[0]
        for some, to in ((WARM, edge(0)), (WARM, CLOUD), (None, edge(0))):  # plans are compiled; then every other key
            for key in asked.keys[0:some:2]:
                fleet.migrate(query, keys=[key], to=to, operator=operator)
            _rest(fleet)
        time.sleep(1.0 + seconds)
        begin = time.time()
        done.append((begin, fleet.plane.keys.done))
        for number, (key, to) in enumerate(ways):
            until(begin + number * 60 / A_MINUTE)
            fleet.migrate(query, keys=[key], to=to, operator=operator)
            done.append((time.time(), fleet.plane.keys.done))
        _rest(fleet)
        done.append((time.time(), fleet.plane.keys.done))

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, dict[str, Any]]:
        seen, at, asked_all = latencies(asked, played), done[0][0], done[-2][0]
        quiet, busy = seen.pushed_between(at - seconds, at - 0.2), seen.pushed_between(at, asked_all)
        p99 = {"calm_p99_ms": _p99(quiet), "p99_ms": _p99(busy), "calm_p50_ms": _p50(quiet), "p50_ms": _p50(busy)}
        both = p99["p99_ms"] and p99["calm_p99_ms"]
        told = {
            **p99,
            "ratio": round(p99["p99_ms"] / p99["calm_p99_ms"], 2) if both else None,  # type: ignore[operator]
            "asked": len(ways),
            "asked_per_minute": round(len(ways) / (asked_all - at) * 60),
            "done_per_minute": _rate(done),
            "under_way_at_last": done[0][1] + len(ways) - done[-2][1],
            "epochs": int(fleet.plane.epoch),
            "target": "p99 at most 1.1x of calm",
        }
        return {"auto": told}

    return play_with(cell, cut, asked, drive, measure)


def _rest(fleet: Fleet) -> None:
    while fleet.plane.keys.busy:
        time.sleep(0.002)


def _rate(done: list[tuple[float, int]]) -> int:
    """Carried out a minute, from the first that was to the last."""
    first = next(k for k, (_, count) in enumerate(done) if count > done[0][1])
    return round((done[-1][1] - done[first - 1][1]) / (done[-1][0] - done[first - 1][0]) * 60)


def _p99(seen: Latencies) -> float | None:
    return round(float(np.quantile(seen.ms, 0.99)), 1) if len(seen.ms) else None


def _p50(seen: Latencies) -> float | None:
    return round(float(np.median(seen.ms)), 1) if len(seen.ms) else None
