"""Two plans of one query side by side, as one plan.

    Union ─┬─ OldRows ── the old box      parallel-track (Section 4.2): the old box goes on with its state, and only
           └─ the new box                 results in which an old row takes part come out; the new one begins empty

    Union ─┬─ OldRows, later ── the old   pause-drain-resume: the same, but rows wait in front of the new box until the
           └─ the new box                 old one holds no old row any more

What is above the box stays, and keeps its state. The query goes over to this plan, and from it to the new one; then all
states are matched, and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from godwit.ids import StreamId
from godwit.model.plan import Filter, Join, OldRows, Operator, Plan, Query, Shape, Stream, Union
from godwit.model.signature import StateKey
from godwit.replan.box import JoinBox
from godwit.replan.matching import Matched, StateMatch, match, meanings

Streams = Mapping[StreamId, Stream]
#: who answers while both run: the old plan where an old row takes part, and the new one beside it or afterwards
Answers = Literal["by age", "later"]


def both(old: Query, new: Query, streams: Streams, answers: Answers = "by age") -> Query:
    """The query that runs both plans."""
    first, second = _Parts.of(old.shape.plan, streams), _Parts.of(new.shape.plan, streams)
    written: list[Operator] = []
    wanted: dict[int, tuple[str, ...]] = {}

    def put(query: Query, indices: Sequence[int], moved: dict[int, int]) -> None:
        for index in indices:
            operator = query.shape.plan.operators[index]
            moved[index] = len(written)
            written.append(operator.reading(tuple(moved[child] for child in operator.inputs)))
            if index in query.subscriptions:
                wanted[moved[index]] = query.subscriptions[index]

    mine, theirs = dict[int, int](), dict[int, int]()
    put(old, first.box, mine)
    written.append(OldRows((mine[first.root],), later=answers == "later"))
    apart = len(written) - 1
    put(new, second.box, theirs)
    written.append(Union((apart, len(written) - 1)))
    mine[first.root] = len(written) - 1
    put(old, first.above, mine)
    return replace(old, shape=Shape(Plan(tuple(written)), old.shape.parameters), subscriptions=wanted, taps={})


def second(query: Query) -> Query:
    """Of a query that runs both plans: the one with the new plan alone."""
    return _alone(query, _Tracks.of(query.shape.plan).new)


def first(query: Query) -> Query:
    """Of a query that runs both plans: the one with the old plan alone."""
    return _alone(query, _Tracks.of(query.shape.plan).old)


def _alone(query: Query, box: tuple[int, ...]) -> Query:
    plan = query.shape.plan
    tracks = _Tracks.of(plan)
    moved: dict[int, int] = {}
    written: list[Operator] = []
    for index in (*box, *tracks.above):
        operator = plan.operators[index]
        moved[index] = len(written)
        written.append(operator.reading(tuple(moved[child] for child in operator.inputs)))
        if index == box[-1]:
            moved[tracks.union] = moved[index]  # the union reads nothing else any more
    wanted = {moved[i]: values for i, values in query.subscriptions.items() if i in moved and i != tracks.union}
    return replace(query, shape=Shape(Plan(tuple(written)), query.shape.parameters), subscriptions=wanted)


def runs_both(plan: Plan) -> bool:
    return plan.runs_both


def answers(plan: Plan) -> Answers:
    """Of plans side by side."""
    return "later" if any(isinstance(op, OldRows) and op.later for op in plan.operators) else "by age"


def dates_rows(plan: Plan) -> bool:
    """Whether rows that come in have their epoch as a class, and those that were inherited have none."""
    return runs_both(plan)


def of_new(plan: Plan) -> frozenset[int]:
    """Of plans side by side: the operators of the new one's box."""
    return frozenset(_Tracks.of(plan).new)


def matching(old: Query, new: Query, streams: Streams) -> StateMatch:
    """Which state of one version serves the next; of plans side by side by their place, else by meaning."""
    if runs_both(new.shape.plan):
        before, after = _Parts.of(old.shape.plan, streams), _Tracks.of(new.shape.plan)
        pairs = [*zip(before.box, after.old, strict=True), *zip(before.above, after.above, strict=True)]
        return _by_place(old, new, pairs)
    if runs_both(old.shape.plan):
        tracks, single = _Tracks.of(old.shape.plan), _Parts.of(new.shape.plan, streams)
        pairs = [*zip(tracks.new, single.box, strict=True), *zip(tracks.above, single.above, strict=True)]
        return _by_place(old, new, pairs)
    return match(old, new, streams)


def placed(old: Query, new: Query, operator: int, streams: Streams) -> int | None:
    """The operator of the new plan whose rows are those of one of the old plan's; None: it has none."""
    if old.shape == new.shape:
        return operator
    wanted = meanings(old, streams)[operator]
    return next((i for i, meaning in enumerate(meanings(new, streams)) if meaning == wanted), None)


def _by_place(old: Query, new: Query, pairs: Sequence[tuple[int, int]]) -> StateMatch:
    kept = {now: was for was, now in pairs}
    matched, empty = [], []
    for index, operator in enumerate(new.shape.plan.operators):
        for side in range(len(operator.state)):
            key = StateKey(new.shape.signatures[index], side)
            if index in kept:
                matched.append(Matched(key, StateKey(old.shape.signatures[kept[index]], side)))
            else:
                empty.append(key)
    return StateMatch(tuple(matched), (), (), tuple(empty))


def reach_us(query: Query, streams: Streams) -> int:
    """Of plans side by side (`JoinBox.span_us`)."""
    return JoinBox.of(first(query).shape.plan, streams).span_us


def old_root(plan: Plan) -> int:
    """Of plans side by side: the topmost join of the old one."""
    return max(i for i in _Tracks.of(plan).old if isinstance(plan.operators[i], Join))


@dataclass(frozen=True)
class _Parts:
    """The operators of a plan: those of its box and below, with the topmost join last, or the filter that is directly
    above it and may have been pushed up from below; and the others."""

    root: int
    box: tuple[int, ...]
    above: tuple[int, ...]

    @staticmethod
    def of(plan: Plan, streams: Streams) -> _Parts:
        root = JoinBox.of(plan, streams).root
        above, _ = plan.consumer(root)
        root = above if isinstance(plan.operators[above], Filter) else root
        inside = sorted(set(plan.below(root)))
        return _Parts(root, tuple(inside), tuple(i for i in range(len(plan.operators)) if i not in inside))


@dataclass(frozen=True)
class _Tracks:
    old: tuple[int, ...]
    new: tuple[int, ...]
    union: int
    above: tuple[int, ...]

    @staticmethod
    def of(plan: Plan) -> _Tracks:
        apart = next(i for i, op in enumerate(plan.operators) if isinstance(op, OldRows))
        united, _ = plan.consumer(apart)
        above = tuple(range(united + 1, len(plan.operators)))
        return _Tracks(tuple(range(apart)), tuple(range(apart + 1, united)), united, above)
