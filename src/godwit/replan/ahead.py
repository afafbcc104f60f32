"""States that only the new plan has, made ahead: beside the running plan, of its states as they lie (`background.py`).

What is made is a cache and nothing more. At the switch what came since is joined to it, as late state is:

    L ⋈ R  =  L0 ⋈ R0  +  dL ⋈ R  +  L0 ⋈ dR        L0, R0: what was there when it was made; dL, dR: what came since

Rows that were there are marked. Where marks are missing (a crash, keys that were divided), what was made is of no use,
and all is made at the switch, as by `moving-state`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from godwit.ids import RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.model.signature import StateKey
from godwit.replan.family import LeftState, left_states
from godwit.replan.matching import Recompute
from godwit.replan.tracks import Streams, matching

Rows = TypeVar("Rows")


@dataclass(frozen=True)
class InParts(Generic[Rows]):
    """The rows of a state."""

    #: of which states were made ahead, or that were made ahead themselves
    before: Rows
    #: that came since
    since: Rows


@dataclass(frozen=True)
class RowSets(Generic[Rows]):
    """How rows are joined and put together: lists in the simulator, frames where queries run."""

    nothing: Rows
    together: Callable[[Rows, Rows], Rows]
    #: what a step makes of rows of its two states
    joined: Callable[[Recompute, Rows, Rows], Rows]

    def whole(self, state: InParts[Rows]) -> Rows:
        return self.together(state.before, state.since)


def came_since(
    left: InParts[Rows],
    right: InParts[Rows],
    joined: Callable[[Rows, Rows], Rows],
    together: Callable[[Rows, Rows], Rows],
) -> Rows:
    """What is made of two states with a row that came since."""
    new = joined(left.since, together(right.before, right.since))
    return together(new, joined(left.before, right.since))


class StatesInParts(Generic[Rows]):
    """States of a plan to come: those that are there, and the joins of them."""

    def __init__(
        self,
        steps: Sequence[Recompute],
        there: Callable[[StateKey], InParts[Rows]],
        sets: RowSets[Rows],
        ahead: Mapping[StateKey, Rows],
    ) -> None:
        """`ahead`: states that were made ahead, of what `there` says was there before."""
        self.steps = {one.new: one for one in steps}
        self._there, self._sets, self._ahead = there, sets, ahead
        self._known: dict[StateKey, InParts[Rows]] = {}

    def __getitem__(self, key: StateKey) -> InParts[Rows]:
        """Made once, though another state may be made of it."""
        if key not in self._known:
            self._known[key] = self._made(key)
        return self._known[key]

    def _made(self, key: StateKey) -> InParts[Rows]:
        step, sets = self.steps.get(key), self._sets
        if step is None:
            return self._there(key)
        left, right = self[step.left], self[step.right]
        if key in self._ahead:
            return InParts(self._ahead[key], came_since(left, right, partial(sets.joined, step), sets.together))
        return InParts(sets.nothing, sets.joined(step, sets.whole(left), sets.whole(right)))


@dataclass(frozen=True)
class Makeable:
    """What a region can make ahead."""

    steps: tuple[Recompute, ...]
    #: of which states of the old version; each is there as a whole
    sources: Mapping[StateKey, LeftState]


def makeable(old: Query, new: Query, deployment: Deployment, region: RegionId, streams: Streams) -> Makeable:
    """The missing states of a version to come that can be made of what a region has of the one that runs."""
    match, queries = matching(old, replace(new, cut=None), streams), deployment.queries
    places = {sign: index for index, sign in enumerate(old.shape.signatures)}
    left = {one.operator: one for one in left_states(old, queries)}
    found = {one.new: (one.old, left.get(places[one.old.signature])) for one in match.matched}
    here = {
        key: (state, one)
        for key, (state, one) in found.items()
        if one is not None and deployment.owners(queries[one.executor], one.operator) == {region}
    }
    steps, there = list[Recompute](), {*here}
    for step in match.recompute:  # (in the order in which they can be computed)
        if {step.left, step.right} <= there:
            there.add(step.new)
            steps.append(step)
    read = {key for step in steps for key in (step.left, step.right)}
    return Makeable(tuple(steps), dict(found for key, found in here.items() if key in read))
