"""Event-time latency over time: when a result was emitted, minus its own event time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from godwit.api.fleet import Fleet
from godwit.storage.log import Segment

#: the plots have a point for each second
BIN_S = 1.0


@dataclass
class Latencies:
    """Emission times (wall seconds) and latencies (milliseconds) of all results of one run."""

    start: float
    emitted: list[np.ndarray] = field(default_factory=list)
    latency: list[np.ndarray] = field(default_factory=list)

    def add(self, wall: float, at_ms: np.ndarray) -> None:
        """Results of event times `at_ms` came out at `wall`; those of the warm-up do not count."""
        at_ms = at_ms[at_ms >= self.start * 1000]
        self.emitted.append(np.full(len(at_ms), wall - self.start))
        self.latency.append(wall * 1000 - at_ms)

    def summary(self, calm_s: float, changes_s: float) -> dict[str, Any]:
        """Figures of the calm beginning, of the time of changes, and over time."""
        when, took = (np.concatenate(part) if part else np.array([]) for part in (self.emitted, self.latency))
        # The first second is nobody's: plans, caches and the driver's first tick.
        calm = took[(when >= 1.0) & (when < calm_s)]
        moving = took[(when >= calm_s) & (when < calm_s + changes_s)]
        return {
            "results": len(took),
            "calm": _figures(calm),
            "under_change": _figures(moving),
            "over_time": [
                {"second": int(second), **_figures(took[(when >= second) & (when < second + BIN_S)])}
                for second in np.unique(np.floor(when))
            ],
        }


def _figures(values: np.ndarray) -> dict[str, Any]:
    if not len(values):
        return {"results": 0, "mean_ms": None, "p50_ms": None, "p95_ms": None}
    p50, p95 = np.quantile(values, [0.5, 0.95])
    found = {"mean_ms": values.mean(), "p50_ms": p50, "p95_ms": p95}
    return {"results": len(values), **{name: round(float(value), 1) for name, value in found.items()}}


class Follower:
    """Reads the commit logs as they grow: a result is out when the commit that names it is written.

    Looks every second, because the fleet keeps house meanwhile: commits do not stay for a whole run.
    """

    def __init__(self, fleet: Fleet, start: float) -> None:
        self.found = Latencies(start)
        self._fleet, self._looked = fleet, start
        self._read: dict[Any, int] = {}

    def look_if_due(self) -> None:
        if time.time() - self._looked >= BIN_S:
            self.look()

    def look(self) -> None:
        self._looked = time.time()
        for key in list(self._fleet.pool.runners):
            for number, record in self._fleet.pool.commits(key, self._read.get(key, 0)):
                self._read[key] = number
                for one in record["results"]:
                    for table in Segment.from_json(one, self._fleet.store).tables(["at"]):
                        at = table.column("at").cast(pa.timestamp("us", tz="UTC"))
                        self.found.add(record["metrics"]["wall"], at.cast(pa.int64()).to_numpy() / 1000)


def micro_batches(fleet: Fleet, start: float) -> dict[str, Any]:
    """How many there were in each region, of those that are kept, and how long they took."""
    found = {}
    for key in list(fleet.pool.runners):
        times = [
            record["metrics"]["took_ms"]
            for _, record in fleet.pool.commits(key, 0)
            if record["metrics"]["wall"] >= start
        ]
        if times:
            p50, p95 = np.quantile(times, [0.5, 0.95])
            found[str(key[0])] = {"batches": len(times), "p50_ms": round(float(p50), 1), "p95_ms": round(float(p95), 1)}
    return found
