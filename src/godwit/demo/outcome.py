"""What one contender did in the demo's time: the figures that the last table shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from godwit.api.oracle import Verdict


@dataclass(frozen=True)
class DemoOutcome:
    """Latencies are in milliseconds, emission minus the result's event time."""

    name: str
    rows: int
    results: int
    #: emitted before hand-overs began, and after
    calm: tuple[float | None, float | None]
    moving: tuple[float | None, float | None]
    handovers: int
    #: of those, how many were in force when the time was over
    handled: int
    verdicts: tuple[Verdict, ...]
    #: query -> p50, p95 over the whole time
    latency: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    state_bytes: int = 0
    #: starts of Spark streaming queries after the first of each
    restarts: int = 0
    note: str = ""

    @property
    def equal(self) -> int:
        return sum(v.equal for v in self.verdicts)


@dataclass(frozen=True)
class Now:
    """One look at a contender while it runs, for the view."""

    name: str
    seconds: float
    of_seconds: float
    #: device -> site
    attached: Mapping[str, str]
    #: (seconds, device, from, to)
    last: tuple[tuple[float, str, str, str], ...]
    rows: int
    results: int
    buffered: int
    handovers: int
    handled: int
    latency: float | None
    calm: float | None
    state_bytes: int
    batches: int


Show = Callable[[Now], None]
