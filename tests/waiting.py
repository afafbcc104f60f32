"""Tests wait for progress, never for time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(holds: Callable[[], Found], seconds: float = 60.0) -> Found:
    """What `holds` gives as soon as it is true; fails if that takes too long. The limit is for hangs, not for speed."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)
    return found
