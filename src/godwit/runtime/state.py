"""An operator's state: a list of segments of mergeable rows. Appended to, pruned by time, compacted now and then.

Rows are never deleted one by one. They die by the clock, and a segment goes when all its rows are dead. Rows that were
handed over, or whose query is gone, are left out on reading (`without`) until the next compaction drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.model.plan import QUERY
from godwit.runtime import segments
from godwit.runtime.log import Segment
from godwit.runtime.operators.join import GENERATION

#: so many segments of about one size are worth one rewriting
FAN_IN = 8


@dataclass
class State:
    """The live segments of one input of one stateful operator."""

    live: list[Segment] = field(default_factory=list)

    def append(self, segment: Segment | None) -> None:
        if segment is not None:
            self.live.append(segment)

    def leave_out(self, query: str, older_than: int) -> None:
        """The query's rows of generations before `older_than` are no longer part of this state."""
        self.live = [
            replace(s, tags={**s.tags, "without": [*s.tags.get("without", []), [query, older_than]]}) for s in self.live
        ]

    def drop_dead(self, clock: int) -> list[Segment]:
        """Forget segments that end at or before the clock; returns them, so that their files can go."""
        dead = [s for s in self.live if s.high is not None and s.high <= clock]
        self.live = [s for s in self.live if not (s.high is not None and s.high <= clock)]
        return dead

    def between(self, low: int, high: int) -> list[Segment]:
        """Segments that may hold rows within [low, high]."""
        return [s for s in self.live if s.low is None or s.high is None or (s.low <= high and s.high >= low)]

    def read(self, spark: SparkSession, chosen: Sequence[Segment] | None = None) -> DataFrame | None:
        """The rows of the chosen segments (default: all) as one DataFrame, without those that were left out."""
        groups: dict[str, list[Segment]] = {}
        for segment in self.live if chosen is None else chosen:
            groups.setdefault(repr(segment.tags.get("without", [])), []).append(segment)
        frames = []
        for group in groups.values():
            frame = segments.read(spark, group)
            assert frame is not None
            for query, older_than in group[0].tags.get("without", []):
                frame = frame.where((F.col(QUERY) != F.lit(query)) | (F.col(GENERATION) >= F.lit(older_than)))
            frames.append(frame)
        return union(frames)

    def crowded(self) -> list[Segment]:
        """Segments of about one size, if there are enough of them to be worth rewriting as one."""
        tiers: dict[int, list[Segment]] = {}
        for segment in self.live:
            tiers.setdefault(max(segment.rows, 1).bit_length() // 3, []).append(segment)
        return next((tier for tier in tiers.values() if len(tier) >= FAN_IN), [])

    def compact(
        self, spark: SparkSession, crowd: list[Segment], rewrite: Callable[[DataFrame], Segment | None]
    ) -> None:
        """Replace the crowd by what `rewrite` makes of its rows."""
        frame = self.read(spark, crowd)
        assert frame is not None
        gone = set(map(id, crowd))
        self.live = [s for s in self.live if id(s) not in gone]
        self.append(rewrite(frame))

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.live)

    @property
    def bytes(self) -> int:
        return sum(s.bytes for s in self.live)

    def to_json(self) -> list[dict[str, Any]]:
        return [s.to_json() for s in self.live]

    @staticmethod
    def from_json(records: Iterable[dict[str, Any]]) -> State:
        return State([Segment.from_json(r) for r in records])


def union(frames: Iterable[DataFrame | None]) -> DataFrame | None:
    """All rows of all frames; None if there is none."""
    whole: DataFrame | None = None
    for frame in frames:
        if frame is not None:
            whole = frame if whole is None else whole.unionByName(frame, allowMissingColumns=True)
    return whole
