"""Ad-hoc state migration queries (ISQD, Section 5): state goes from node to node, and the new instance waits for it.

In the paper a query of its own reads the state where the instance was, passes it on and writes it where the instance
is now. Here a region's hand-over does that, in chunks, over the same nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.migration.base import HandOver, Moved, Step


def steps(moved: Moved, variant: str = "") -> Iterator[Step]:
    assert moved.source is not None
    yield HandOver(moved.instance, moved.source, moved.target, moved.path, wait=True, chunked=True)
