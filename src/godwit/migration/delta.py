"""Delta: the new instance starts at once and merges the state when it comes; only its clock waits for it.

State is a log of mergeable rows, so state that arrives late is one more delta: nothing is paused, buffered or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.base import HandOver, Moved, Step
from godwit.migration.phases import Await, Phase, Switch


def steps(moved: Moved, variant: str = "") -> Iterator[Step]:
    assert moved.source is not None
    yield HandOver(moved.instance, moved.source, moved.target, moved.path, wait=False, chunked=True)


def phases(variant: str = "") -> Iterator[Phase]:
    """Of keys, the same: their route changes at once, their state follows."""
    yield Switch()
    yield Await("state")
