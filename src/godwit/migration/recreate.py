"""State recreation (SR): leave the state behind and replay the sources into the new instance, which waits for it.

Upstream backup is what makes it possible; ISQD, Section 7.1, measures a best, an average and a worst case.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.base import Moved, ReplayState, Step


def steps(moved: Moved, variant: str) -> Iterator[Step]:
    yield ReplayState(moved.instance, moved.target, moved.scans, variant)
