"""Marks on segments of state: of which rows something was made ahead (`ahead.py`), whatever becomes of the segments.

A mark has a weight: one for each segment that it was put on, the sum where some are rewritten as one. Whoever rewrites
segments without carrying the marks on loses weight, and it is seen that not all rows are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from godwit.storage.log import Segment

#: the tag under which a segment's mark is kept, with its weight
SEEN = "seen"


def marked(segment: Segment, mark: str, weight: int = 1) -> Segment:
    return replace(segment, tags={**segment.tags, SEEN: [mark, weight]})


def unmarked(segment: Segment) -> Segment:
    return replace(segment, tags={name: tag for name, tag in segment.tags.items() if name != SEEN})


def mark_of(segment: Segment) -> str | None:
    found: str | None = segment.tags.get(SEEN, (None, 0))[0]
    return found


def weight(found: Iterable[Segment], mark: str) -> int:
    return sum(segment.tags[SEEN][1] for segment in found if mark_of(segment) == mark)


def by_mark(found: Iterable[Segment]) -> list[list[Segment]]:
    """Only segments of one mark may be rewritten as one."""
    alike: dict[str | None, list[Segment]] = {}
    for segment in found:
        alike.setdefault(mark_of(segment), []).append(segment)
    return list(alike.values())


def carried_on(before: Sequence[Segment], written: Iterable[Segment | None]) -> list[Segment]:
    """Segments that were written of rows of others, all of one mark; one of them has all the weight."""
    made, mark = [segment for segment in written if segment is not None], mark_of(before[0]) if before else None
    if mark is None:
        return made
    weights = [weight(before, mark)] + [0] * len(made)
    return [marked(segment, mark, share) for segment, share in zip(made, weights, strict=False)]
