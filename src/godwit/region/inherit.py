"""A new version's state, made of what the version before has left (Zhu et al., Section 4.1).

A state that both plans have is the same rows, by reference, under the new version's name. A state that only the new
plan has is a join of two others (Algorithm 1), inputs before outputs: few rows by direct plans, many as a Spark job.
All rows that are left have met each other: whatever they make together, the old version has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.engine.size_policy import USUAL
from godwit.ids import QueryId
from godwit.model.plan import CLASS, GENERATION, Query
from godwit.model.signature import StateKey
from godwit.operators.join import computed, join_that_keeps, still_needed
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import NEVER
from godwit.region.legacy import left_by
from godwit.region.poll import Parts
from godwit.region.recompute import RecomputeTarget
from godwit.region.state import State
from godwit.replan.matching import Recompute
from godwit.replan.tracks import dates_rows, matching
from godwit.storage.log import Segment
from godwit.storage.overlays import edited
from godwit.storage.place import Place
from godwit.storage.store import Store

#: States are computed beside the region's loop, where nobody waits for a direct plan: up to this size that takes a
#: fraction of a job's CPU time (docs/results/plan.md).
COMPUTED = replace(USUAL, handed_rows=USUAL.small_rows, handed_files=4 * USUAL.handed_files)


class Heir:
    """The states of one version, made of those that the version before has left."""

    def __init__(self, store: Store, query: QueryId, to: RecomputeTarget) -> None:
        queries = to.deployment.queries
        self._new = queries.get(query)
        inherits = None if self._new is None else self._new.inherits
        old = None if inherits is None else queries.get(inherits)
        left = None if old is None else left_by(store, old, queries)
        if self._new is None or old is None or left is None:
            self._new = None  # withdrawn meanwhile
            return
        match = matching(old, replace(self._new, cut=None), to.deployment.streams)
        places = {sign: index for index, sign in enumerate(old.shape.signatures)}
        there = {
            m.new: (left[places[m.old.signature]], m.old.side) for m in match.matched if places[m.old.signature] in left
        }
        self._matched = {key: found.parts.get(side, []) for key, (found, side) in there.items()}
        #: states that others have, too, and since which class their rows are this query's
        self._since = {key: found.since for key, (found, _) in there.items() if found.since}
        clock = min((one.clock for one in left.values()), default=NEVER)
        undated = dates_rows(self._new.shape.plan)
        self._made = ComputedStates(to.spark, self._new, match.recompute, self._shared, clock, self._since, undated)

    @property
    def known(self) -> bool:
        """Whether both versions are there."""
        return self._new is not None

    def parts(self, move: Migration, landing: Place | None) -> Parts | None:
        """The state of one operator; what begins empty has no part. Without a place for what must be computed, None if
        something must."""
        if self._new is None:
            return {}
        sides = range(len(self._new.shape.plan.operators[move.operator].state))
        keys = {side: StateKey(self._new.shape.signatures[move.operator], side) for side in sides}
        if landing is None and any(key in self._made.steps or self._is_copied(key) for key in keys.values()):
            return None
        return {side: found for side, key in keys.items() if (found := self._segments(key, landing))}

    def _segments(self, key: StateKey, landing: Place | None) -> list[Segment]:
        if key in self._matched and not self._is_copied(key):
            return self._shared(key)
        rows = self._made.rows(key) if key in self._made.steps or key in self._matched else None
        if rows is None:
            return []
        assert landing is not None
        where, small = landing / f"computed-{key.side}", isinstance(rows, LazyFrame)
        written = segments.write(rows, where, small=small, prune_by=self._made.time_of(key))
        return [] if written is None else [segments.filed(written, where)]

    def _shared(self, key: StateKey) -> list[Segment]:
        assert self._new is not None
        return [edited(segment, "query", self._new.id) for segment in self._matched.get(key, [])]

    def _is_copied(self, key: StateKey) -> bool:
        """Whether some of a state's rows are not the query's; or their classes would mean something else."""
        assert self._new is not None
        found = self._matched.get(key, [])
        classes = dates_rows(self._new.shape.plan) and any(has_class(segment) for segment in found)
        return bool(found) and (key in self._since or classes)


class ComputedStates:
    """States of a plan that are joins of two others (Algorithm 1)."""

    def __init__(
        self,
        spark: SparkSession,
        query: Query,
        steps: Sequence[Recompute],
        shared: Callable[[StateKey], list[Segment]],
        clock: int = NEVER,
        since: Mapping[StateKey, int] = MappingProxyType({}),
        undated: bool = False,
    ) -> None:
        """`shared`: the states that are there; `clock`: how far the watermark has come; `since`: of some of them only
        rows of these classes, or later ones, are the query's; `undated`: rows that are inherited have no class."""
        self._spark, self._query, self._shared, self._clock = spark, query, shared, clock
        self._since, self._undated = since, undated
        self.steps: Mapping[StateKey, Recompute] = {one.new: one for one in steps}
        self._known: dict[StateKey, Frame | None] = {}

    def rows(self, key: StateKey) -> Frame | None:
        """The rows of a state, of one generation; made once, though another state may be made of them."""
        if key not in self._known:
            self._known[key] = self._rows(key)
        return self._known[key]

    def time_of(self, key: StateKey) -> str | None:
        operator = self._query.shape.plan.operators[self._query.shape.signatures.index(key.signature)]
        return operator.state[key.side].time

    def _rows(self, key: StateKey) -> Frame | None:
        step = self.steps.get(key)
        if step is None:
            found = State(self._shared(key)).read(self._spark, sizes=COMPUTED)
            return None if found is None else self._own(key, found)
        left, right = self.rows(step.left), self.rows(step.right)
        if left is None or right is None:
            return None
        types = [parameter.type for parameter in self._query.shape.parameters]
        literals = [f"CAST({v} AS {t})" for v, t in zip(self._query.parameters, types, strict=True)]
        rows = computed(left, right, self._query.shape.plan.operators[step.operator], literals)
        return _of_one_generation(self._alive(key, rows))

    def _own(self, key: StateKey, rows: Frame) -> Frame:
        """Those that were taken in since the query began; what has no class is older than any that taps."""
        since = self._since.get(key, 0)
        if since:
            rows = rows.where(f"{CLASS} >= {since}L" if CLASS in rows.columns else "false")
        return _of_one_generation(rows.drop(CLASS) if self._undated else rows)

    def _alive(self, key: StateKey, rows: Frame) -> Frame:
        """Without what can be part of no result any more (4.1.3): the watermark has passed all it could meet."""
        if self._clock <= NEVER:
            return rows.now() if isinstance(rows, LazyFrame) else rows
        reader = join_that_keeps(self._query.shape, key)
        if not isinstance(rows, LazyFrame):
            return still_needed(rows, reader, key.side, self._clock)
        since, time = self._clock - reader.stays_us[key.side] - 1, reader.state[key.side].time
        assert time is not None
        return rows.kept(lambda table: pc.greater_equal(segments.micros(table.column(time)), since))


def has_class(segment: Segment) -> bool:
    return CLASS in segment.schema


def _of_one_generation(rows: Frame) -> Frame:
    others = [f"`{name}`" for name in rows.columns if name != GENERATION]
    return rows.selectExpr(*others, f"0L AS {GENERATION}")
