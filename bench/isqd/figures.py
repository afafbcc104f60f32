"""What a run tells of its changes: how many were in force, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def changes(batches: Sequence[tuple[float, float | None]], over: float) -> dict[str, Any]:
    """`batches`: when each batch of changes arrived and was in force (None: never); `over`: when the time was."""
    following = [arrived for arrived, _ in batches[1:]] + [over]
    waits = sorted(done - arrived for arrived, done in batches if done is not None)
    return {
        "changes": len(batches),
        "handled": sum(done is not None and done <= over for _, done in batches),
        "before_the_next": sum(
            done is not None and done <= then for (_, done), then in zip(batches, following, strict=True)
        ),
        "change_p50_ms": round(waits[len(waits) // 2] * 1000, 1) if waits else None,
        "change_p95_ms": round(waits[int(len(waits) * 0.95)] * 1000, 1) if waits else None,
    }
