"""Threads that do small pieces of work, some of which may take long: one goes on beside the others that are stuck.

One thread usually does all of it. Another is added only while pieces wait and none of them was begun for a moment: then
all the threads are held up. Pieces may also be put off until a time.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

#: so long (seconds) a piece waits for busy threads before there is one more of them
PATIENCE = 0.01
#: a thread without work stays so long (seconds)
STAYS = 10.0

Work = Callable[[], None]


class Workers:
    """Begins pieces of work in the order in which they were put."""

    def __init__(self, name: str) -> None:
        self._name, self._numbers = name, itertools.count(1)
        self._ready = deque[Work]()
        #: (monotonic time, number, work)
        self._later: list[tuple[float, int, Work]] = []
        #: guards all of it; workers wait for `_news`, the watch for `_watched`
        self._lock = threading.Lock()
        self._news, self._watched = threading.Condition(self._lock), threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._idle, self._begun = 0, 0
        self._watch: threading.Thread | None = None
        self._stopping = False

    @property
    def running(self) -> bool:
        return self._watch is not None

    def put(self, work: Work) -> None:
        """Do it, soon."""
        with self._lock:
            self._ready.append(work)
            if self._idle:
                self._news.notify()
            if self._idle < len(self._ready):
                self._watched.notify()

    def put_later(self, seconds: float, work: Work) -> None:
        """Do it after some time; forgotten if the workers are stopped before."""
        with self._lock:
            first = self._later[0][0] if self._later else None
            at = time.monotonic() + seconds
            heapq.heappush(self._later, (at, next(self._numbers), work))
            if first is None or at < first:
                self._watched.notify()

    def start(self) -> None:
        with self._lock:
            if self._watch is None:
                self._stopping = False
                self._watch = threading.Thread(target=self._watch_over, name=f"{self._name}-watch", daemon=True)
                self._watch.start()

    def stop(self) -> None:
        """Returns when what was begun is done; the rest is forgotten."""
        with self._lock:
            self._stopping = True
            self._ready.clear()
            self._later.clear()
            self._news.notify_all()
            self._watched.notify_all()
            there = [*([self._watch] if self._watch else ()), *self._threads]
            self._watch = None
        for thread in there:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self) -> None:
        while (work := self._take()) is not None:
            try:
                work()
            except Exception:  # pieces deal with what they expect; the others go on whatever comes
                log.exception("%s: a piece of work has failed", self._name)

    def _take(self) -> Work | None:
        with self._lock:
            self._idle += 1
            self._news.wait_for(lambda: self._ready or self._stopping, STAYS)
            self._idle -= 1
            if self._ready and not self._stopping:
                self._begun += 1
                return self._ready.popleft()
            self._threads.discard(threading.current_thread())
            return None

    def _watch_over(self) -> None:
        """Pieces whose time has come; and one more thread where pieces wait and none is begun."""
        with self._lock:
            while not self._stopping:
                now = time.monotonic()
                while self._later and self._later[0][0] <= now:
                    self._ready.append(heapq.heappop(self._later)[2])
                    self._news.notify()
                if not self._ready:
                    self._watched.wait(self._later[0][0] - now if self._later else None)
                    continue
                if not self._threads:
                    self._add()
                begun = self._begun
                self._watched.wait_for(lambda: self._stopping, PATIENCE)
                if self._ready and self._begun == begun and not self._idle:
                    self._add()

    def _add(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{next(self._numbers)}", daemon=True)
        self._threads.add(thread)
        thread.start()
