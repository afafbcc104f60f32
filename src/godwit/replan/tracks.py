"""Two plans of one query side by side, as one plan (parallel track, Section 4.2).

    Union ─┬─ OldRows ── the old box    goes on with its state; only results in which an old row takes part come out
           └─ the new box               begins empty: all its rows are new

What is above the box stays, and keeps its state. The query goes over to this plan, and from it to the new one when the
old box holds no old row any more; both times all states are matched, and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from godwit.ids import StreamId
from godwit.model.plan import Join, OldRows, Operator, Plan, Query, Shape, Stream, Union
from godwit.model.signature import StateKey
from godwit.replan.box import JoinBox
from godwit.replan.matching import Matched, StateMatch, match

Streams = Mapping[StreamId, Stream]


def both(old: Query, new: Query, streams: Streams) -> Query:
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
    written.append(OldRows((mine[first.root],)))
    apart = len(written) - 1
    put(new, second.box, theirs)
    written.append(Union((apart, theirs[second.root])))
    mine[first.root] = len(written) - 1
    put(old, first.above, mine)
    return replace(old, shape=Shape(Plan(tuple(written)), old.shape.parameters), subscriptions=wanted, taps={})


def second(query: Query) -> Query:
    """Of a query that runs both plans: the one with the new plan alone."""
    plan = query.shape.plan
    tracks = _Tracks.of(plan)
    moved: dict[int, int] = {}
    written: list[Operator] = []
    for index in (*tracks.new, *tracks.above):
        operator = plan.operators[index]
        moved[index] = len(written)
        written.append(operator.reading(tuple(moved[child] for child in operator.inputs)))
        if index == tracks.new[-1]:
            moved[index + 1] = moved[index]  # the union reads nothing else any more
    wanted = {moved[i]: values for i, values in query.subscriptions.items() if i in moved}
    return replace(query, shape=Shape(Plan(tuple(written)), query.shape.parameters), subscriptions=wanted)


def runs_both(plan: Plan) -> bool:
    return any(isinstance(operator, OldRows) for operator in plan.operators)


def matching(old: Query, new: Query, streams: Streams) -> StateMatch:
    """Which state of one version serves the next; of plans side by side by their place, else by meaning."""
    if runs_both(new.shape.plan):
        before, after = _Parts.of(old.shape.plan, streams), _Tracks.of(new.shape.plan)
        pairs = [*zip(before.box, after.old, strict=True), *zip(before.above, after.above, strict=True)]
    elif runs_both(old.shape.plan):
        tracks, single = _Tracks.of(old.shape.plan), _Parts.of(new.shape.plan, streams)
        pairs = [*zip(tracks.new, single.box, strict=True), *zip(tracks.above, single.above, strict=True)]
    else:
        return match(old, new, streams)
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


def reach_us(plan: Plan) -> int:
    """Of plans side by side: how far apart in time two rows of one result can lie at most."""
    joins = (plan.operators[i] for i in _Tracks.of(plan).old)
    return sum(max(abs(join.lower_us), abs(join.upper_us)) for join in joins if isinstance(join, Join))


def old_root(plan: Plan) -> int:
    """Of plans side by side: the topmost join of the old one."""
    return _Tracks.of(plan).old[-1]


@dataclass(frozen=True)
class _Parts:
    """The operators of a plan: those of its box and below, with the topmost join last; and the others."""

    root: int
    box: tuple[int, ...]
    above: tuple[int, ...]

    @staticmethod
    def of(plan: Plan, streams: Streams) -> _Parts:
        root = JoinBox.of(plan, streams).root
        inside = sorted(set(plan.below(root)))
        return _Parts(root, tuple(inside), tuple(i for i in range(len(plan.operators)) if i not in inside))


@dataclass(frozen=True)
class _Tracks:
    old: tuple[int, ...]
    new: tuple[int, ...]
    above: tuple[int, ...]

    @staticmethod
    def of(plan: Plan) -> _Tracks:
        apart = next(i for i, op in enumerate(plan.operators) if isinstance(op, OldRows))
        united, _ = plan.consumer(apart)
        return _Tracks(
            tuple(range(apart)), tuple(range(apart + 1, united)), tuple(range(united + 1, len(plan.operators)))
        )
