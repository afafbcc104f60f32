"""Background (ours): moving state, with the new plan's missing states made before the switch, beside the old plan.

The old plan answers meanwhile. At the switch only what came since is joined to what was made (`ahead.py`), so there is
next to no silence, no second plan takes rows in, and nothing like two windows of rows is processed twice.
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
        return "its joins keep no intermediate state to compute", "use 'stateless-order' or 'auto'"
    if change.lost_rows:
        return "the old plan's states hold too few rows for the new one", "use 'parallel-track'"
    return None


def steps(change: BoxChange) -> Iterator[PlanStep]:
    if change.match.recompute:
        yield ComputeStates(ahead=True)
    yield HoldInputs()
    yield DrainInputs()
    yield ShareStates()
    if change.match.recompute:
        yield ComputeStates()
    yield SwitchPlan()
    yield ReleaseInputs()
    yield AwaitFirstSteps()
    yield RetirePlan()
