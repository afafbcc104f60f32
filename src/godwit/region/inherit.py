"""A new version's state, made of what the version before has left (Zhu et al., Section 4.1).

A state that both plans have is the same rows, by reference, under the new version's name. A state that only the new
plan has is a join of two others (Algorithm 1): a Spark job, inputs before outputs. All rows that are left have met each
other: whatever they make together, the old version has answered.
"""

from __future__ import annotations

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, made
from godwit.model.plan import GENERATION, Query
from godwit.model.signature import StateKey
from godwit.operators.join import computed, still_needed
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import NEVER
from godwit.region.legacy import Left, left_by
from godwit.region.poll import Parts
from godwit.region.recompute import RecomputeTarget
from godwit.region.state import State
from godwit.replan.matching import StateMatch
from godwit.replan.tracks import matching
from godwit.storage.log import Segment
from godwit.storage.overlays import edited
from godwit.storage.place import Place
from godwit.storage.store import Store


def inherit(store: Store, move: Migration, to: RecomputeTarget, landing: Place | None) -> Parts | None:
    """The state of one operator of the new version; what begins empty has no part. Without a place for what must be
    computed, None if something must."""
    new = to.deployment.queries.get(move.query)
    old = to.deployment.queries.get(new.inherits) if new is not None and new.inherits is not None else None
    left = None if old is None else left_by(store, old)
    if new is None or old is None or left is None:
        return {}  # withdrawn meanwhile
    sides = range(len(new.shape.plan.operators[move.operator].state))
    keys = {side: StateKey(new.shape.signatures[move.operator], side) for side in sides}
    match = matching(old, new, to.deployment.streams)
    if landing is None and not {one.new for one in match.recompute}.isdisjoint(keys.values()):
        return None
    heir = _Heir(to, old, new, left, landing, match)
    return {side: found for side, key in keys.items() if (found := heir.segments(key))}


class _Heir:
    def __init__(
        self,
        to: RecomputeTarget,
        old: Query,
        new: Query,
        left: dict[int, Left],
        landing: Place | None,
        match: StateMatch,
    ) -> None:
        self._to, self._new, self._left, self._landing = to, new, left, landing
        self._matched = {one.new: one.old for one in match.matched}
        self._computed = {one.new: one for one in match.recompute}
        self._places = {sign: index for index, sign in enumerate(old.shape.signatures)}

    def segments(self, key: StateKey) -> list[Segment]:
        old = self._matched.get(key)
        if old is not None:
            parts, _ = self._left[self._places[old.signature]]
            return [edited(segment, "query", self._new.id) for segment in parts.get(old.side, [])]
        rows = self._rows(key)
        if rows is None:
            return []
        index = self._new.shape.signatures.index(key.signature)
        time = self._new.shape.plan.operators[index].state[key.side].time
        assert self._landing is not None
        written = segments.write(rows, self._landing / f"computed-{key.side}", small=False, prune_by=time)
        return [] if written is None else [written]

    def _rows(self, key: StateKey) -> Frame | None:
        """The rows of a state, of one generation."""
        step = self._computed.get(key)
        if step is None:
            found = State(self.segments(key)).read(self._to.spark) if key in self._matched else None
            return None if found is None else _of_one_generation(found)
        left, right = self._rows(step.left), self._rows(step.right)
        if left is None or right is None:
            return None
        types = [parameter.type for parameter in self._new.shape.parameters]
        literals = [f"CAST({v} AS {t})" for v, t in zip(self._new.parameters, types, strict=True)]
        operators = self._new.shape.plan.operators
        rows = computed(made(left), made(right), operators[step.operator], literals)
        # Without what can be part of no result any more (4.1.3): the watermark has passed all it could meet.
        clock = min((clock for _, clock in self._left.values()), default=NEVER)
        if clock > NEVER:
            reader = operators[self._new.shape.signatures.index(key.signature)]
            rows = still_needed(rows, reader, key.side, clock)
        return _of_one_generation(rows)


def _of_one_generation(rows: Frame) -> Frame:
    others = [f"`{name}`" for name in rows.columns if name != GENERATION]
    return made(rows).selectExpr(*others, f"0L AS {GENERATION}")
