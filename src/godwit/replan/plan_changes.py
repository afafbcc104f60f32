"""Changes of plan that are under way: which step each is at, what waits and why, and what becomes of one that fails.

A pure state machine beside the coordinator. It asks for steps (`PlanInstruction`), hears that they are done or that
something failed, and says what comes next:

    queued --no other change of the query--> step --done--> next step ... --> done
                                               └──failed, or given up--> the new plan is dropped, the old goes on

Until the last step before `RetirePlan` is done the old plan has all its states and can go on from where it stopped, so
a failure loses nothing. The next change of a query waits for the one before it, and starts from what that one made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.replan.join_tree import JoinTree
from godwit.replan.steps import BoxChange, HoldInputs, PlanStep, ReleaseInputs, RetirePlan, SetOrder, steps

#: so many that ended are remembered
KEPT = 100


@dataclass(frozen=True)
class DropPlan:
    """The new plan goes with all that was made for it; the old one goes on from its last commit."""


@dataclass(frozen=True)
class PlanInstruction:
    """Carry out one step."""

    number: int
    query: QueryId
    order: JoinTree
    step: PlanStep | DropPlan


@dataclass(frozen=True)
class PlanMigration:
    """One change and how far it is."""

    number: int
    query: QueryId
    order: JoinTree
    strategy: str
    steps: tuple[PlanStep, ...]
    #: the step that is under way
    at: int = 0
    state: Literal["queued", "running", "reverting", "done", "reverted"] = "queued"
    #: why it waits, or why it was given up
    reason: str = ""

    @property
    def step(self) -> PlanStep | None:
        return self.steps[self.at] if self.at < len(self.steps) else None

    @property
    def revertible(self) -> bool:
        """Whether the old plan still has all that it needs."""
        return self.state == "running" and not isinstance(self.step, RetirePlan | SetOrder)

    @property
    def holding(self) -> bool:
        """Whether the query's rows wait in their logs."""
        begun = [type(step) for step in self.steps[: self.at + 1]]
        return HoldInputs in begun and ReleaseInputs not in begun[:-1]


@dataclass
class PlanChanges:
    """All that are queued or under way, and the last that ended."""

    number: int = 0
    queued: list[PlanMigration] = field(default_factory=list)
    active: dict[int, PlanMigration] = field(default_factory=dict)
    ended: list[PlanMigration] = field(default_factory=list)

    def ask(self, query: QueryId, order: JoinTree, strategy: str, change: BoxChange) -> PlanMigration:
        """Queue a change; ConfigError if the strategy refuses it."""
        self.number += 1
        one = PlanMigration(self.number, query, order, strategy, steps(strategy, change))
        before = next((m for m in [*self.active.values(), *self.queued] if m.query == query), None)
        if before is not None:
            one = replace(one, reason=f"change {before.number} of {query} comes first")
        self.queued.append(one)
        return one

    def next(self) -> Iterator[PlanInstruction]:
        """What begins now: of each query the oldest change, if none of its is under way."""
        busy = {one.query for one in self.active.values()}
        for one in list(self.queued):
            if one.query not in busy:
                busy.add(one.query)
                self.queued.remove(one)
                self.active[one.number] = replace(one, state="running", reason="")
                yield self._instruction(self.active[one.number])

    def done(self, number: int) -> Iterator[PlanInstruction]:
        """A change's step is done: its next step, or what waited for its end."""
        one = self._active(number)
        if one.state == "reverting":
            yield from self._end(replace(one, state="reverted"))
            return
        one = replace(one, at=one.at + 1)
        if one.step is None:
            yield from self._end(replace(one, state="done"))
            return
        self.active[number] = one
        yield self._instruction(one)

    def failed(self, number: int, reason: str) -> Iterator[PlanInstruction]:
        """A step failed, or somebody gives the change up: the old plan goes on. DeploymentError if it is too late."""
        one = self._active(number)
        if one.state == "reverting":
            return
        if not one.revertible:
            msg = f"change {number} of {one.query} has ended the old plan: {reason}; ask for the old order again"
            raise DeploymentError(msg)
        self.active[number] = replace(one, state="reverting", reason=reason)
        yield PlanInstruction(number, one.query, one.order, DropPlan())

    def _active(self, number: int) -> PlanMigration:
        if number not in self.active:
            msg = f"no change of plan {number} is under way"
            raise DeploymentError(msg)
        return self.active[number]

    def _end(self, one: PlanMigration) -> Iterator[PlanInstruction]:
        del self.active[one.number]
        self.ended = [*self.ended, one][-KEPT:]
        yield from self.next()

    @staticmethod
    def _instruction(one: PlanMigration) -> PlanInstruction:
        assert one.step is not None
        return PlanInstruction(one.number, one.query, one.order, one.step)
