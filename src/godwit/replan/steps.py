"""The steps that strategies of plan change are made of, and the table of strategies by name.

A strategy yields steps; the control plane carries them out one after the other (`api/plan_versions.py`).

    HoldInputs, ReleaseInputs   rows of the query wait in their logs; they go on
    DrainInputs                 every row that came before the start is processed by the old plan (4.1.3)
    ShareStates                 matched states are the new plan's as well, by reference (4.1.1)
    ComputeStates               unmatched states are joined from those below them, inputs first (Algorithm 1).
                                `ahead`: as of the start, while the old plan goes on; what comes since is left for later
    RunBoth                     both plans take rows; the old one joins no new row with a new row at its root (4.2.2).
                                `held`: what the new plan makes waits; `later`: the new plan reads its rows afterwards
    AwaitOldRows                until the old plan's states hold only rows since the start
    SwitchPlan                  one epoch: the new plan answers, the old one no longer does
    ReleaseResults              what was held comes out
    SetOrder                    the row of the table that says in which order streams are probed
    AwaitFirstSteps             until the new plan has committed in every region: until then the old one can go on
    RetirePlan                  the old plan, and the states that only it had, go
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from godwit.replan.fault import fault
from godwit.replan.matching import StateMatch

#: name -> the module beside this one that defines `steps` and `refusal`
PLAN_STRATEGIES = {
    "pause-drain-resume": "pause_drain_resume",
    "moving-state": "moving_state",
    "parallel-track": "parallel_track",
    "background": "background",
    "stateless-order": "stateless_order",
}
#: the one that the forecasts say is best (`auto.py`)
AUTO = "auto"


@dataclass(frozen=True)
class HoldInputs:
    pass


@dataclass(frozen=True)
class ReleaseInputs:
    pass


@dataclass(frozen=True)
class DrainInputs:
    pass


@dataclass(frozen=True)
class ShareStates:
    pass


@dataclass(frozen=True)
class ComputeStates:
    ahead: bool = False


@dataclass(frozen=True)
class RunBoth:
    held: bool = True
    later: bool = False


@dataclass(frozen=True)
class AwaitOldRows:
    pass


@dataclass(frozen=True)
class SwitchPlan:
    pass


@dataclass(frozen=True)
class ReleaseResults:
    pass


@dataclass(frozen=True)
class SetOrder:
    pass


@dataclass(frozen=True)
class AwaitFirstSteps:
    pass


@dataclass(frozen=True)
class RetirePlan:
    pass


PlanStep = (
    HoldInputs
    | ReleaseInputs
    | DrainInputs
    | ShareStates
    | ComputeStates
    | RunBoth
    | AwaitOldRows
    | SwitchPlan
    | ReleaseResults
    | SetOrder
    | AwaitFirstSteps
    | RetirePlan
)


@dataclass(frozen=True)
class BoxChange:
    """What a strategy has to know of a change."""

    match: StateMatch
    #: both plans say the same; not so where the SQL has changed
    equivalent: bool = True
    #: the joins keep no intermediate state: each row probes the other streams in an order that can be set
    probing: bool = False
    #: pause-drain-resume may let windows run out
    run_out: bool = False
    #: parallel-track keeps the new plan's results back until the old one is finished, so that times stay in order
    held: bool = True

    @property
    def lost_rows(self) -> bool:
        """Whether the new plan would answer without rows of the past that the old one still answers with."""
        return self.equivalent and not self.match.complete


class PlanStrategy(Protocol):
    def steps(self, change: BoxChange) -> Iterator[PlanStep]: ...

    def refusal(self, change: BoxChange) -> tuple[str, str] | None:
        """(why this change cannot be made like this, what to do instead)"""


def strategy(name: str) -> PlanStrategy:
    if name not in PLAN_STRATEGIES:
        msg = f"there is no strategy '{name}' for a change of plan"
        raise fault(msg, remedy=f"choose one of {', '.join([AUTO, *PLAN_STRATEGIES])}")
    return cast(PlanStrategy, import_module(f"godwit.replan.{PLAN_STRATEGIES[name]}"))


def possible(change: BoxChange) -> tuple[str, ...]:
    """The strategies that refuse nothing about a change."""
    return tuple(name for name in PLAN_STRATEGIES if strategy(name).refusal(change) is None)


def steps(name: str, change: BoxChange) -> tuple[PlanStep, ...]:
    """What is to be done, in order; ConfigError with the strategy's reason where it refuses."""
    chosen = strategy(name)
    refused = chosen.refusal(change)
    if refused is not None:
        problem, remedy = refused
        msg = f"'{name}' cannot make this change: {problem}"
        raise fault(msg, remedy=remedy)
    return tuple(chosen.steps(change))
