"""What bounds a search: a deadline, and a proof that nothing better is left to find."""

from __future__ import annotations

import time
from dataclasses import dataclass


class Deadline:
    """A time limit that starts now; no limit means it never runs out."""

    def __init__(self, seconds: float | None = None) -> None:
        self.started = time.perf_counter()
        self._end = None if seconds is None else self.started + seconds

    def over(self, early: float = 0.0) -> bool:
        """True once the limit has passed, or is less than `early` seconds away."""
        return self._end is not None and time.perf_counter() + early >= self._end

    def left(self) -> float | None:
        """Seconds to go, None without a limit."""
        return None if self._end is None else max(0.0, self._end - time.perf_counter())

    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started


@dataclass(frozen=True)
class Proof:
    """No plan costs less than `bound`; `how` says what shows it."""

    bound: float
    how: str
    optimal: bool = False
