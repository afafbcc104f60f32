"""A new version's state, made of what the version before has left (Zhu et al., Section 4.1).

A state that both plans have is the same rows, by reference, under the new version's name. A state that only the new
plan has is a join of two others (Algorithm 1), inputs before outputs: few rows by direct plans, many as a Spark job.
All rows that are left have met each other: whatever they make together, the old version has answered. What was made of
them ahead (`ahead.py`) is taken as it is, with what came since joined to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame, LazyFrame
from godwit.engine.size_policy import USUAL
from godwit.ids import QueryId
from godwit.model.plan import CLASS, GENERATION, QUERY, Query
from godwit.model.signature import StateKey
from godwit.operators.join import computed, join_that_keeps, still_needed
from godwit.protocol.handover import Migration
from godwit.protocol.watermarks import NEVER
from godwit.region.legacy import Left, left_by
from godwit.region.poll import Parts
from godwit.region.recompute import RecomputeTarget
from godwit.region.seen import mark_of, unmarked, weight
from godwit.region.sql_text import text
from godwit.region.state import State, union
from godwit.replan.ahead import InParts, RowSets, StatesInParts
from godwit.replan.matching import Recompute
from godwit.replan.tracks import dates_rows, matching
from godwit.storage.log import Segment
from godwit.storage.overlays import edited
from godwit.storage.place import Place
from godwit.storage.store import Store

#: States are computed beside the region's loop, where nobody waits for a direct plan: up to this size that takes a
#: fraction of a job's CPU time (docs/results/plan.md).
COMPUTED = replace(USUAL, handed_rows=USUAL.small_rows, handed_files=4 * USUAL.handed_files)


@dataclass(frozen=True)
class MadeAhead:
    """States of a version to come, made in one region."""

    #: which segments they were made of (`seen.py`)
    mark: str
    #: of the version
    shape: str
    states: Mapping[StateKey, list[Segment]]
    #: how much of each of the old version's states had the mark
    sources: Mapping[StateKey, int]


def heir_of(store: Store, query: QueryId, to: RecomputeTarget, ahead: Sequence[MadeAhead]) -> Heir | None:
    """Of a version, once the one before has left all its states; None: one of them was withdrawn meanwhile."""
    queries = to.deployment.queries
    new = queries.get(query)
    old = None if new is None or new.inherits is None else queries.get(new.inherits)
    left = None if old is None else left_by(store, old, queries)
    return None if new is None or old is None or left is None else Heir(new, old, left, to, ahead)


class Heir:
    """The states of one version, made of those that the version before has left, or has now."""

    def __init__(
        self, new: Query, old: Query, left: Mapping[int, Left], to: RecomputeTarget, ahead: Sequence[MadeAhead] = ()
    ) -> None:
        self._new = new
        match = matching(old, replace(new, cut=None), to.deployment.streams)
        places = {sign: index for index, sign in enumerate(old.shape.signatures)}
        there = {
            m.new: (left[places[m.old.signature]], m.old.side) for m in match.matched if places[m.old.signature] in left
        }
        self._matched = {key: found.parts.get(side, []) for key, (found, side) in there.items()}
        #: states that others have, too, and since which class their rows are this query's
        self._since = {key: found.since for key, (found, _) in there.items() if found.since}
        #: whose rows they are, where they are not this query's alone
        self._of = {key: found.of for key, (found, _) in there.items() if found.of is not None}
        old_states = {one.old: one.new for one in match.matched}
        made = [one for one in ahead if self._is_of_use(one, old_states)]
        #: states that were made ahead
        self._ahead = {key: [self._own(s) for s in found] for one in made for key, found in one.states.items()}
        marks = frozenset(one.mark for one in made)
        clock = min((one.clock for one in left.values()), default=NEVER)
        self._made = ComputedStates(
            to.spark, new, match.recompute, lambda key: self._parted(key, marks), clock, self._one_query, self._ahead
        )

    def _is_of_use(self, made: MadeAhead, states: Mapping[StateKey, StateKey]) -> bool:
        """Whether all rows of which states were made are there, known as such."""
        if made.shape != self._new.shape.key:
            return False
        found = {old: weight(self._matched.get(states[old], []), made.mark) for old in made.sources}
        return found == made.sources

    @property
    def was_made_ahead(self) -> bool:
        """Whether only what came since is to be joined, while rows wait."""
        return bool(self._ahead) and self._ahead.keys() >= self._made.steps.keys()

    @property
    def sources(self) -> Iterator[Segment]:
        for found in self._matched.values():
            yield from found

    def parts(self, move: Migration, landing: Place | None) -> Parts | None:
        """The state of one operator; what begins empty has no part. Without a place for what must be computed, None if
        something must."""
        sides = range(len(self._new.shape.plan.operators[move.operator].state))
        keys = {side: StateKey(self._new.shape.signatures[move.operator], side) for side in sides}
        if landing is None and not all(map(self._by_reference, keys.values())):
            return None
        where = {side: landing and landing / f"computed-{side}" for side in keys}
        return {side: found for side, key in keys.items() if (found := self.segments(key, where[side]))}

    def segments(self, key: StateKey, where: Place | None) -> list[Segment]:
        """`where` what must be written lands."""
        if key in self._matched and not self._is_copied(key):
            return [self._own(segment) for segment in self._matched[key]]
        if key not in self._made.steps and key not in self._matched:
            return []
        found = self._made.parts(key)
        rows = found.since if key in self._ahead else together(found.before, found.since)
        made = list(self._ahead.get(key, []))
        if rows.empty or rows.frame is None:
            return made
        assert where is not None
        small = isinstance(rows.frame, LazyFrame)
        written = segments.write(rows.frame, where, small=small, prune_by=self._made.time_of(key))
        return [*made, *([] if written is None else [segments.filed(written, where)])]

    def _by_reference(self, key: StateKey) -> bool:
        """Whether nothing need be computed for a state."""
        if key in self._made.steps:
            return key in self._ahead and self._made.parts(key).since.empty
        return not self._is_copied(key)

    def _own(self, segment: Segment) -> Segment:
        return edited(unmarked(segment), "query", self._new.id)

    def _parted(self, key: StateKey, marks: frozenset[str]) -> InParts[list[Segment]]:
        parts: tuple[list[Segment], list[Segment]] = ([], [])
        for segment in self._matched.get(key, []):
            mine = segment if key in self._of else self._own(segment)
            parts[mark_of(segment) not in marks].append(mine)
        return InParts(*parts)

    def _one_query(self, key: StateKey, rows: Frame) -> Frame:
        """Those that were taken in since the query began; what has no class is older than any that taps."""
        of, since = self._of.get(key), self._since.get(key, 0)
        if of is not None:
            mine = f"{QUERY} = {text(of)}"
            rows = rows.with_all(QUERY, of) if isinstance(rows, LazyFrame) else rows.where(mine)
        if since:
            rows = rows.where(f"{CLASS} >= {since}L" if CLASS in rows.columns else "false")
        return _of_one_generation(rows.drop(CLASS) if dates_rows(self._new.shape.plan) else rows)

    def _is_copied(self, key: StateKey) -> bool:
        """Whether some of a state's rows are not the query's; or their classes would mean something else."""
        found = self._matched.get(key, [])
        classes = dates_rows(self._new.shape.plan) and any(has_class(segment) for segment in found)
        return bool(found) and (key in self._since or classes)


class LaterRows:
    """Rows that are read, or joined, when somebody asks for them."""

    def __init__(self, make: Callable[[], Frame | None] | None = None) -> None:
        #: there are none, and nobody need ask
        self.empty = make is None
        self._make = make

    @cached_property
    def frame(self) -> Frame | None:
        return None if self._make is None else self._make()


def together(some: LaterRows, more: LaterRows) -> LaterRows:
    if some.empty or more.empty:
        return some if more.empty else more
    return LaterRows(lambda: union([some.frame, more.frame]))


class ComputedStates:
    """States of a plan that are joins of two others (Algorithm 1)."""

    def __init__(
        self,
        spark: SparkSession,
        query: Query,
        steps: Sequence[Recompute],
        shared: Callable[[StateKey], InParts[list[Segment]]],
        clock: int = NEVER,
        own: Callable[[StateKey, Frame], Frame] = lambda key, rows: rows,
        ahead: Mapping[StateKey, list[Segment]] = MappingProxyType({}),
    ) -> None:
        """`shared`: the states that are there; `clock`: how far the watermark has come; `own`: the rows of one of them
        that are the query's, as it has them; `ahead`: states that were made of what `shared` says was there before."""
        self._spark, self._query, self._shared, self._clock, self._of_query = spark, query, shared, clock, own
        sets = RowSets(LaterRows(), together, self._joined)
        made = {key: self._read(found) for key, found in ahead.items()}
        self._states = StatesInParts(steps, self._there, sets, made)
        self.steps = self._states.steps

    def parts(self, key: StateKey) -> InParts[LaterRows]:
        """The rows of a state, of one generation; made once, though another state may be made of them."""
        return self._states[key]

    def time_of(self, key: StateKey) -> str | None:
        operator = self._query.shape.plan.operators[self._query.shape.signatures.index(key.signature)]
        return operator.state[key.side].time

    def _there(self, key: StateKey) -> InParts[LaterRows]:
        found = self._shared(key)
        both = (found.before, found.since)
        return InParts(*(self._read(part, lambda rows: self._of_query(key, rows)) for part in both))

    def _read(self, found: list[Segment], own: Callable[[Frame], Frame] = lambda rows: rows) -> LaterRows:
        def rows() -> Frame | None:
            frame = State(found).read(self._spark, sizes=COMPUTED)
            return None if frame is None else own(frame)

        return LaterRows(rows if found else None)

    def _joined(self, step: Recompute, left: LaterRows, right: LaterRows) -> LaterRows:
        def rows() -> Frame | None:
            mine, theirs = left.frame, right.frame
            if mine is None or theirs is None:
                return None
            types = [parameter.type for parameter in self._query.shape.parameters]
            literals = [f"CAST({v} AS {t})" for v, t in zip(self._query.parameters, types, strict=True)]
            made = computed(mine, theirs, self._query.shape.plan.operators[step.operator], literals)
            return _of_one_generation(self._alive(step.new, made))

        return LaterRows() if left.empty or right.empty else LaterRows(rows)

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
