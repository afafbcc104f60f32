"""Which shape of a region is stepped next: those with news in turn, and those whose time has come. Pure.

    news      a log that the shape reads has grown
    due       a time (a source becomes idle, an operator's deadline, state on its way) at which it is to be looked at
    away      its micro-batch is under way beside the loop: it is passed over until it is back

Whoever was stepped goes to the end of the queue, so that one with rows all the time does not starve the others. Shapes
that answer at once go before those that keep rows until a watermark comes: while a region is behind, rows of the latter
gather, and one step takes them all. Of those that have waited for long, one goes after every few that answer at once.
Regions of one process share its interpreter: so those of one give way to those of the others, too (`Hurry`).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Hashable)

#: how long (seconds) a shape with news lets all shapes go before it that answer at once; then how many of them
PATIENCE, GO_BEFORE = 0.05, 4


class StepSchedule(Generic[K]):
    """Not thread-safe: the loop that owns it holds its lock."""

    def __init__(self) -> None:
        self._known: set[K] = set()
        self._away: set[K] = set()
        #: those that answer at once
        self._prompt: set[K] = set()
        #: who has news, and since when
        self._queue: OrderedDict[K, float] = OrderedDict()
        self._due: dict[K, float] = {}
        #: (time, order of entry, shape); entries that `_due` no longer has are passed over
        self._timers: list[tuple[float, int, K]] = []
        self._entered = 0
        #: how many have gone before one that had waited for long
        self._gone_before = 0

    def add(self, key: K, prompt: bool = False) -> None:
        """It has news at first: nobody knows what its logs hold. `prompt`: it answers at once."""
        self._known.add(key)
        (self._prompt.add if prompt else self._prompt.discard)(key)
        self.news(key)

    def remove(self, key: K) -> None:
        self._known.discard(key)
        self._away.discard(key)
        self._prompt.discard(key)
        self._queue.pop(key, None)
        self._due.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def news(self, key: K, now: float = 0.0) -> None:
        if key in self._known:
            self._queue.setdefault(key, now)

    def due(self, key: K, at: float | None) -> None:
        """When it is to be looked at, whatever comes; None: no longer."""
        if at is None or key not in self._known:
            self._due.pop(key, None)
        elif self._due.get(key) != at:
            self._due[key] = at
            self._entered += 1
            heapq.heappush(self._timers, (at, self._entered, key))

    def leave(self, key: K) -> None:
        self._away.add(key)

    def back(self, key: K) -> None:
        self._away.discard(key)

    @property
    def away(self) -> frozenset[K]:
        return frozenset(self._away)

    def take(self, now: float, give_way: bool = False) -> K | None:
        """The next one to be stepped; None: nobody has anything to do, or (`give_way`) nobody who is in a hurry."""
        self._ring(now)
        found = next((key for key in self._queue if key not in self._away), None)
        if found is None:
            return None
        if found not in self._prompt:
            late = now - self._queue[found] >= PATIENCE
            found = self._before(found, late)
            if give_way and not late and found not in self._prompt:
                return None
        del self._queue[found]
        return found

    @property
    def waits(self) -> bool:
        """Whether somebody has news and could be stepped."""
        return any(key not in self._away for key in self._queue)

    def hurries(self, taken: K | None = None) -> bool:
        """Whether one that answers at once has something to do, or is the one that was taken."""
        return taken in self._prompt or any(key in self._prompt and key not in self._away for key in self._queue)

    def _before(self, first: K, late: bool) -> K:
        """One that answers at once, unless it is the turn of the first in the queue."""
        if not late or self._gone_before < GO_BEFORE:
            for key in self._queue:
                if key in self._prompt and key not in self._away:
                    self._gone_before += late
                    return key
        self._gone_before = 0
        return first

    def until(self) -> float | None:
        """When the next timer goes off."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _ring(self, now: float) -> None:
        while (at := self.until()) is not None and at <= now:
            _, _, key = heapq.heappop(self._timers)
            del self._due[key]
            self.news(key, now)


class Hurry(Generic[R]):
    """Which regions of a process have something to do that is answered at once. Any thread may ask or say."""

    def __init__(self) -> None:
        self._there: dict[R, bool] = {}

    def say(self, region: R, hurries: bool) -> None:
        self._there[region] = hurries

    def elsewhere(self, region: R) -> bool:
        return any(hurries for other, hurries in list(self._there.items()) if other != region)
