"""The latency of links between regions, in emulation: what a region has written is seen elsewhere only after a while.

Regions of one process read each other's logs, which takes no time. With `Links(round_trip_ms=80)` a message of one
region (rows, marks, markers, hand-overs) becomes visible to its reader half a round trip after it was published; an
epoch becomes visible in a region half a round trip after the hub has published it; and what a region reports to the
control plane (acknowledgements, state that has come) takes as long. Two regions neither of which is the hub are a whole
round trip apart. Order is kept, as a connection keeps it. Rows of devices are pushed where the device is: no delay.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable

from godwit.region.link_emulator import Links

#: a way that messages take: from, to, which log
Way = tuple[str, str, str]
EPOCHS = "control"


class LinkDelays:
    """One per fleet. Any thread may ask; what is late is called by a thread of its own."""

    def __init__(self, links: Links) -> None:
        self.links = links
        #: way -> (number, when it is seen), in order
        self._sent: dict[Way, deque[tuple[int, float]]] = {}
        #: way -> the last number that is seen
        self._seen: dict[Way, int] = {}
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def sent(self, source: str, target: str, log: str, number: int, then: Callable[[], None], late: bool) -> None:
        """A message was published now; `then` is called when it is seen. Not `late`: it is seen at once, because the
        fleet does not run, and whoever steps it does not wait."""
        at = time.time() + (self.links.seconds(source, target) if late else 0.0)
        with self._news:
            self._sent.setdefault((source, target, log), deque()).append((number, at))
        if late:
            self._call(at, then)

    def sees(self, source: str, target: str, log: str, number: int) -> bool:
        """Whether a message is there. What was published before this process began is."""
        way, now = (source, target, log), time.time()
        with self._news:
            waiting = self._sent.get(way)
            if waiting is None:
                return True
            while waiting and waiting[0][1] <= now:
                self._seen[way] = waiting.popleft()[0]
            if number <= self._seen.get(way, 0):
                return True
            # Older than all that this process has sent, or on its way (or published a moment ago, and not noted yet).
            return way not in self._seen and bool(waiting) and number < waiting[0][0]

    def reports(self, region: str, then: Callable[[], None]) -> None:
        """A region tells the control plane something."""
        self._call(time.time() + self.links.seconds(region, self.links.hub), then)

    @property
    def busy(self) -> bool:
        """Whether anything is on its way."""
        with self._news:
            return bool(self._later)

    def _call(self, at: float, then: Callable[[], None]) -> None:
        with self._news:
            self._count += 1
            heapq.heappush(self._later, (at, self._count, then))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="godwit-links", daemon=True)
                self._thread.start()
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._later or self._later[0][0] > time.time():
                    self._news.wait(self._later[0][0] - time.time() if self._later else None)
                then = self._later[0][2]
            then()
            with self._news:
                self._later.remove(next(one for one in self._later if one[2] is then))
                heapq.heapify(self._later)
