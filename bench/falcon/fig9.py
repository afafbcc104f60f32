"""Figure 9: a car over 2, 3 and 32 edges, and back and forth between two: latency and bandwidth over time.

The car is the one key of tm; its key begins at the first edge, goes up with the first hop and down where it stays for
the dwell (5 s). In short the car hops every 2 s, and 32 edges are 8.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

from bench.falcon.ground import edge
from bench.falcon.measures import Steady, disruption_ms, jitter_ms
from bench.falcon.questions import QUESTIONS, Question
from bench.falcon.sending import Cell, Cut, Played, latencies, over_time, play_with, until
from godwit.api.fleet import Fleet
from godwit.migration.source_mobility import MINIMUM_DWELL

TITLE = "Figure 9: a car over 2, 3 and 32 edges, with and without ping-pong"
VARIES = "way of the car"
#: seconds between two hops; in a ping-pong
HOP_S, PONG_S = 3.0, 1.0


def run(cut: Cut, short: bool) -> list[dict[str, Any]]:
    hop, many = (2.0, 8) if short else (HOP_S, 32)
    ways = {f"{n} edges": list(range(1, n)) for n in (2, 3, many)}
    ways["2 edges, ping-pong"] = [1, 0, 1, 0, 1]
    return [one for name, way in ways.items() for one in _driven(name, way, PONG_S if "ping" in name else hop, cut)]


def _driven(name: str, way: list[int], hop_s: float, cut: Cut) -> list[dict[str, Any]]:
    asked = replace(QUESTIONS["tm"], count=1)
    cell = Cell("fig9", "tm", name, edges=max(way) + 1)
    cut = replace(cut, rate=min(cut.rate, 500.0))
    sent: list[tuple[float, int]] = []

    def prepare(fleet: Fleet, asked: Question) -> None:
        query, operator = asked.operators(fleet)[0]
        fleet.migrate(query, keys=asked.keys, to=edge(0), operator=operator)
        fleet.pool.follow(lambda runner, number, record: sent.append(_bytes(record)))

    def drive(fleet: Fleet, played: Played) -> None:
        begin = played.start + cut.warm_s + cut.calm_s
        for number, target in enumerate(way):
            until(begin + number * hop_s)
            fleet.notify_handover("s0", edge(target))
        time.sleep(MINIMUM_DWELL + 3.0)

    def measure(asked: Question, played: Played, fleet: Fleet) -> dict[str, dict[str, Any]]:
        seen, calm = latencies(asked, played), played.start + cut.warm_s
        steady = Steady.of(seen.between(calm, calm + cut.calm_s - 0.2))
        around = seen.between(calm + cut.calm_s, played.called[-1])
        by_second: Counter[int] = Counter()
        for at, size in sent:
            by_second[int(at - played.start)] += size
        told = {
            "disruption_total_ms": disruption_ms(around, steady.limit),
            "jitter_p99_ms": jitter_ms(around, steady.mean),
            "steady_mean_ms": round(steady.mean, 1),
            "hops": len(way),
            "migrations": [f"{one.site}: {how}" for one, how in fleet.plane.keys.ended][1:],
            "over_time": over_time(seen, played),
            "bandwidth": sorted(by_second.items()),
        }
        return {"auto": told}

    return play_with(cell, cut, asked, drive, measure, prepare, mobility=True)


def _bytes(record: dict[str, Any]) -> tuple[float, int]:
    metrics = record["metrics"]
    return metrics["wall"], metrics["handed_over"] + sum(size for _, _, size in metrics["sent"])
