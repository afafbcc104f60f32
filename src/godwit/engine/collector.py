"""Python's search for garbage in cycles: seldom, and when objects of Java's have gathered.

By default it looks through what is new after every 700 objects, and through everything whenever a quarter is new. Many
small micro-batches make many objects, nearly all of which go without it, and a fleet keeps many more: with 32 shapes
the search took a tenth of the processor time, 0.2 s at a time in which no region did anything. A control plane that
plans for 80,000 devices needed 30 s of processor time with it, and 16 s without.

Data frames are in cycles, and keep objects of Java's, of whose size Python knows nothing. So where Spark runs, these
are counted: when there are a quarter more than the last search has left, everything is searched, on a thread of its
own.
"""

from __future__ import annotations

import gc
import threading
import time

from py4j.finalizer import ThreadSafeFinalizer

USUAL, SELDOM = (700, 10, 10), (50_000, 20, 20)
#: growth in Java objects that triggers a collection; how often they are counted (seconds)
FEW, COUNT_EVERY = 1_000, 0.5

_started = threading.Lock()


def search_seldom() -> bool:
    """Unless the program has chosen something itself; whether it has not."""
    if gc.get_threshold() == USUAL:
        gc.set_threshold(*SELDOM)
    return gc.get_threshold() == SELDOM


def search_by_java() -> None:
    """The same where Spark runs: once a process, for as long as it lives."""
    if search_seldom() and _started.acquire(blocking=False):
        threading.Thread(target=_watch, name="garbage", daemon=True).start()


def held() -> int:
    """Objects of Java's that Python keeps, in cycles or not."""
    return len(ThreadSafeFinalizer.finalizers)


def _watch() -> None:
    left = held()
    while True:
        time.sleep(COUNT_EVERY)
        if held() > left + max(FEW, left // 4):
            gc.collect()
            left = held()
        left = min(left, held())
