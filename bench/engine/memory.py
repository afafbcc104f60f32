"""Peak resident memory of the JVM and of Python while something runs, and the processor time it took."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil


@dataclass
class Peak:
    """Megabytes: the driver's JVM, and Python (this process and its workers)."""

    jvm: float = 0.0
    python: float = 0.0

    def to_json(self) -> dict[str, int]:
        return {"jvm_mb": round(self.jvm), "python_mb": round(self.python)}


@contextmanager
def peak_memory(every: float = 0.25) -> Iterator[Peak]:
    """Looks at this process and all below it, a few times a second."""
    peak, done = Peak(), threading.Event()

    def look() -> None:
        while True:
            jvm, python = _resident()
            peak.jvm, peak.python = max(peak.jvm, jvm), max(peak.python, python)
            if done.wait(every):
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def cpu_seconds() -> float:
    """Processor time so far, of this process and all below it: on a busy machine it says more than the clock."""
    total = 0.0
    for process in (me := psutil.Process(), *me.children(recursive=True)):
        with suppress(psutil.Error):
            spent = process.cpu_times()
            total += spent.user + spent.system
    return total


def _resident() -> tuple[float, float]:
    me = psutil.Process()
    jvm, python = 0.0, me.memory_info().rss / 1e6
    for child in me.children(recursive=True):
        try:
            name, rss = child.name(), child.memory_info().rss / 1e6
        except psutil.Error:  # it ended while we looked
            continue
        if "java" in name:
            jvm += rss
        elif "python" in name:
            python += rss
    return jvm, python
