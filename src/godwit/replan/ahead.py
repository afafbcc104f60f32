"""States that only the new plan has, made ahead: beside the running plan, of its states as they lie (`background.py`).

What is made is a cache and nothing more. At the switch what came since is joined to it, as late state is:

    L ⋈ R  =  L0 ⋈ R0  +  dL ⋈ R  +  L0 ⋈ dR        L0, R0: what was there when it was made; dL, dR: what came since

Rows that were there are marked. Where marks are missing (a crash, keys that were divided), what was made is of no use,
and all is made at the switch, as by `moving-state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from godwit.model.signature import StateKey
from godwit.replan.matching import Recompute, StateMatch

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


def of_here(match: StateMatch, here: Callable[[StateKey], bool]) -> Iterator[Recompute]:
    """The missing states that can be made of states of the old plan that are `here`."""
    there = {one.new for one in match.matched if here(one.old)}
    for step in match.recompute:  # (in the order in which they can be computed)
        if {step.left, step.right} <= there:
            there.add(step.new)
            yield step


def sources(match: StateMatch, steps: Sequence[Recompute]) -> frozenset[StateKey]:
    """The states of the old plan of which steps make others."""
    read = {key for step in steps for key in (step.left, step.right)}
    return frozenset(one.old for one in match.matched if one.new in read)
