"""Background (ours): the new plan's missing states are computed beside the old plan, caught up, and one epoch switches.

The old plan answers until the switch, so there is no silence; what is computed is what moving state computes, plus the
rows that come meanwhile, so nothing like two windows of rows is processed twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.replan.steps import (
    AwaitFirstSteps,
    BoxChange,
    CatchUp,
    ComputeStates,
    PlanStep,
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
    yield ShareStates()
    if change.match.recompute:
        yield ComputeStates(beside=True)
        yield CatchUp()
    yield SwitchPlan()
    yield AwaitFirstSteps()
    yield RetirePlan()
