"""What a client may ask of the server at most. Pure: time is an argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    #: bytes of a request's body
    body: int = 8_000_000
    #: requests per second and caller, in the long run and at once
    rate: float = 20_000.0
    burst: float = 40_000.0
    #: live connections
    subscribers: int = 2_000
    #: results and events that may wait for a slow subscriber before it is dropped
    waiting: int = 1_000
    #: entries of a source log that its readers may lag behind before rows are refused with 429
    unread: int = 5_000


class RateLimiter:
    """A token bucket per caller."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        #: caller -> (what is left, as of when)
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, caller: str, now: float) -> float:
        """Take one request; returns 0, or how many seconds to wait before the next try."""
        left, at = self._left.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            self._left[caller] = (left, now)
            return (1 - left) / self._rate
        self._left[caller] = (left - 1, now)
        return 0.0
