"""Answers and their latency, split into what the query must wait for and what the contender adds."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from godwit.demo.due import Handed
from godwit.demo.queries import Asked

Pair = tuple[float | None, float | None]


@dataclass(frozen=True)
class TimedAnswer:
    """One result row. All times are wall seconds."""

    query: str
    #: the result's event time
    at: float
    #: when everything it needs had been handed over
    due: float
    #: when the one who asked had it
    emitted: float

    @property
    def latency(self) -> float:
        """Milliseconds since the event."""
        return (self.emitted - self.at) * 1000

    @property
    def waits(self) -> float:
        """Of these, what the query must wait for."""
        return (self.due - self.at) * 1000

    @property
    def added(self) -> float:
        """Of these, what the contender adds."""
        return (self.emitted - self.due) * 1000


@dataclass
class Answers:
    """What a contender has answered about the time from `since` on; told from any thread.

    Left out are answers to the warm-up, and windows that were closed by the end of the trace, not by a clock.
    """

    handed: Handed
    since: float
    given: list[TimedAnswer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def take(self, query: Asked, rows: Iterable[Mapping[str, Any]], emitted: float) -> None:
        found = []
        for row in rows:
            at = seconds(row["at"])
            due = self.handed.due(query, row, at) if at >= self.since else None
            # Plain Spark is sent everything once more, of a day later, which ends its windows: no answers of ours.
            if due is not None and at <= emitted:
                found.append(TimedAnswer(query.name, at, due, emitted))
        with self._lock:
            self.given += found


def seconds(at: datetime) -> float:
    """A result's time as wall seconds; without a zone it is UTC's, which is the sessions' own."""
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def pair(values: Sequence[float]) -> Pair:
    """Median and 95th percentile; None where there are no values."""
    if not len(values):
        return None, None
    low, high = np.quantile(np.asarray(values), (0.5, 0.95))
    return float(low), float(high)
