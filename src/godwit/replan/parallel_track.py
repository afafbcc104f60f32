"""Parallel track (Algorithm 3): both plans take every new row, until the old one holds no old row any more.

The old plan answers where an old row takes part, the new one where all rows are new; nothing stops, and all rows are
processed twice for two windows (one, where no join stands above another).
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.replan.steps import (
    AwaitFirstSteps,
    AwaitOldRows,
    BoxChange,
    PlanStep,
    ReleaseResults,
    RetirePlan,
    RunBoth,
    SwitchPlan,
)


def refusal(change: BoxChange) -> tuple[str, str] | None:
    if change.probing:
        return "its joins keep no intermediate state, so no row is old for long", "use 'stateless-order' or 'auto'"
    if not change.equivalent:
        problem = "the old plan does not compute what the new one does, so they cannot share the answers"
        return problem, "use 'background' or 'moving-state'"
    return None


def steps(change: BoxChange) -> Iterator[PlanStep]:
    yield RunBoth(held=change.held)
    yield AwaitOldRows()
    yield SwitchPlan()
    if change.held:
        yield ReleaseResults()
    yield AwaitFirstSteps()
    yield RetirePlan()
