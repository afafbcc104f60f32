"""The paper's measures (Section IV), of latencies as they were seen. Pure.

disruption   time during which latency is at least the steady mean plus five standard deviations. A result that
             comes so late is overdue from the moment at which it would have been in time until it comes; the
             disruption is the time during which any result was overdue
jitter       how far the 99th percentile of the latency around a migration lies above the steady mean
duration     from the request to the end of the last phase: from then on the destination alone answers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SIGMAS = 5.0
#: results of so many seconds after the end of a migration still count to it
AFTER_S = 1.0


@dataclass(frozen=True)
class Latencies:
    """Of results in the order in which they came: when the row behind each was pushed, and when it was answered."""

    pushed: np.ndarray
    answered: np.ndarray

    @property
    def ms(self) -> np.ndarray:
        return (self.answered - self.pushed) * 1000

    def between(self, begin: float, end: float) -> Latencies:
        """Answered since the beginning, pushed before the end."""
        mine = (self.answered >= begin) & (self.pushed < end)
        return Latencies(self.pushed[mine], self.answered[mine])

    def pushed_between(self, begin: float, end: float) -> Latencies:
        mine = (self.pushed >= begin) & (self.pushed < end)
        return Latencies(self.pushed[mine], self.answered[mine])

    @staticmethod
    def together(parts: Sequence[Latencies]) -> Latencies:
        if not parts:
            return Latencies(np.array([]), np.array([]))
        return Latencies(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("pushed", "answered")))


@dataclass(frozen=True)
class Steady:
    """Latency while nothing migrates (milliseconds)."""

    mean: float
    sigma: float
    p99: float
    results: int

    @staticmethod
    def of(seen: Latencies) -> Steady:
        if not len(seen.ms):
            return Steady(0.0, 0.0, 0.0, 0)
        return Steady(float(seen.ms.mean()), float(seen.ms.std()), float(np.quantile(seen.ms, 0.99)), len(seen.ms))

    @property
    def limit(self) -> float:
        return self.mean + SIGMAS * self.sigma


def disruption_ms(seen: Latencies, limit_ms: float) -> float:
    """The length of the union of the times in which a result was overdue."""
    late = seen.ms >= limit_ms
    spans = sorted(zip(seen.pushed[late] + limit_ms / 1000, seen.answered[late], strict=True))
    total, until = 0.0, -np.inf
    for begin, end in spans:
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return round(float(total) * 1000, 1)


def jitter_ms(seen: Latencies, mean_ms: float) -> float | None:
    """None: nothing was answered."""
    return round(float(np.quantile(seen.ms, 0.99)) - mean_ms, 1) if len(seen.ms) else None
