"""Delta: the new instance starts at once and merges the state when it comes; only its clock waits for it.

State is a log of mergeable rows, so state that arrives late is one more delta: nothing is paused, buffered or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.base import HandOver, Moved, Step


def steps(moved: Moved, variant: str = "") -> Iterator[Step]:
    assert moved.source is not None
    yield HandOver(moved.instance, moved.source, moved.target, moved.path, wait=False, chunked=True)
