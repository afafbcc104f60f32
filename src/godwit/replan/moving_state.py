"""Moving state (Algorithm 2): stop, process what has come, share what matches, compute what does not, go on.

Nothing comes out from the hold until the new plan answers; how long that is depends on the states to compute.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.replan.steps import (
    AwaitFirstSteps,
    BoxChange,
    ComputeStates,
    DrainInputs,
    HoldInputs,
    PlanStep,
    ReleaseInputs,
    RetirePlan,
    ShareStates,
    SwitchPlan,
)


def refusal(change: BoxChange) -> tuple[str, str] | None:
    if change.probing:
        return "its joins keep no intermediate state to move", "use 'stateless-order' or 'auto'"
    if change.lost_rows:
        return "the old plan's states hold too few rows for the new one", "use 'parallel-track'"
    return None


def steps(change: BoxChange) -> Iterator[PlanStep]:
    yield HoldInputs()
    yield DrainInputs()
    yield ShareStates()
    if change.match.recompute:
        yield ComputeStates()
    yield SwitchPlan()
    yield ReleaseInputs()
    yield AwaitFirstSteps()
    yield RetirePlan()
