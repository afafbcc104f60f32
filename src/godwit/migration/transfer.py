"""State transfer (ST): the whole state is stored and forwarded, one hop after the other; the new instance waits for it.

The baseline of ISQD, Section 7.1: common inside a data centre, extended there to paths of several hops.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.base import HandOver, Moved, Step


def steps(moved: Moved, variant: str = "") -> Iterator[Step]:
    assert moved.source is not None
    yield HandOver(moved.instance, moved.source, moved.target, moved.path, wait=True, chunked=False)
