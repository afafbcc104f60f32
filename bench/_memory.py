"""Peak resident memory of the JVM, of this process and of Python workers while something runs, and its processor time.

Processor time says more than the clock on a busy machine. It is kept by process: one that has ended meanwhile still
counts, with what it was last seen to have used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil


@dataclass
class Peak:
    """Megabytes, each the largest that was seen; `python`: this process and the workers together."""

    jvm: float = 0.0
    driver: float = 0.0
    workers: float = 0.0
    python: float = 0.0
    cpu_s: float = 0.0

    def to_json(self) -> dict[str, int]:
        return {"jvm_mb": round(self.jvm), "python_mb": round(self.python)}

    def see(self, jvm: float, driver: float, workers: float) -> None:
        self.jvm, self.driver = max(self.jvm, jvm), max(self.driver, driver)
        self.workers, self.python = max(self.workers, workers), max(self.python, driver + workers)


@contextmanager
def peak_memory(every_s: float = 0.2) -> Iterator[Peak]:
    """Looks at this process and all below it, a few times a second."""
    peak, done = Peak(), threading.Event()
    seen = _cpu()
    before = sum(seen.values())

    def look() -> None:
        while True:
            seen.update(_cpu())
            peak.see(*_resident())
            if done.wait(every_s):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak.cpu_s = sum((seen | _cpu()).values()) - before


def cpu_seconds() -> float:
    """Processor time so far, of this process and all below it."""
    return sum(_cpu().values())


def _cpu() -> dict[int, float]:
    found = {}
    for process in (me := psutil.Process(), *me.children(recursive=True)):
        with suppress(psutil.Error):
            spent = process.cpu_times()
            found[process.pid] = spent.user + spent.system
    return found


def _resident() -> tuple[float, float, float]:
    """JVM, this process, Python workers."""
    me = psutil.Process()
    jvm = workers = 0.0
    for child in me.children(recursive=True):
        with suppress(psutil.Error):  # it may end while we look
            rss = child.memory_info().rss / 1e6
            if child.exe().endswith("/java"):  # (one that it has just forked has its memory, and a thread's name)
                jvm = max(jvm, rss)
            else:
                workers += rss
    return jvm, me.memory_info().rss / 1e6, workers
