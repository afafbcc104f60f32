"""Duties of a background thread: each fails alone, is tried again after a growing pause, and says why in the status."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

#: seconds until a duty that failed is tried again: the first time, and at most
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0


@dataclass
class Attempts:
    """How often something failed in a row, and from when on it may be tried again."""

    failures: int = 0
    not_before: float = 0.0
    failure: Exception | None = None

    def due(self, now: float) -> bool:
        return now >= self.not_before

    def failed(self, error: Exception, now: float) -> None:
        pause = min(FIRST_PAUSE * 2**self.failures, LONGEST_PAUSE)
        self.failures, self.not_before, self.failure = self.failures + 1, now + pause, error

    def succeeded(self) -> None:
        self.failures, self.not_before, self.failure = 0, 0.0, None


@dataclass
class Duty:
    """One thing to do again and again. `on_failure`: what to put right before the next attempt."""

    name: str
    do: Callable[[], object]
    on_failure: Callable[[], object] = lambda: None
    clock: Callable[[], float] = time.monotonic
    attempts: Attempts = field(default_factory=Attempts)

    def run(self) -> None:
        """Do it, if it is not waiting for its next attempt; nothing that it raises gets out."""
        if not self.attempts.due(self.clock()):
            return
        try:
            self.do()
        except Exception as error:
            self.attempts.failed(error, self.clock())
            self.on_failure()
            log.exception("%s has failed; it is tried again", self.name)
        else:
            self.attempts.succeeded()
