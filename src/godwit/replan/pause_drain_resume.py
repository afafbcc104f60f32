"""Pause, drain, resume: right for plans without state; with state, draining waits for what pausing holds back.

Rows leave a join's state because newer rows come, and pausing holds those back: the change would wait for old rows to
go, and old rows for the change to end (Section 1). So it is refused for joins, unless windows may run out: then the old
plan goes on taking rows, answers only where an old row takes part, and the new plan begins with the same rows when the
old one holds no old row any more. Results of new rows alone are that much later.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.replan.steps import (
    AwaitFirstSteps,
    AwaitOldRows,
    BoxChange,
    DrainInputs,
    HoldInputs,
    PlanStep,
    ReleaseInputs,
    RetirePlan,
    RunBoth,
    SwitchPlan,
)


def refusal(change: BoxChange) -> tuple[str, str] | None:
    if change.run_out and not change.equivalent:
        problem = "the old plan does not say what the new one does, so its answers cannot fill the gap"
        return problem, "use 'background' or 'moving-state'"
    if change.run_out or not _stateful(change):
        return None
    problem = (
        "old rows leave the states of its joins only when new rows come, and pausing holds those back, so it would "
        "never end"
    )
    return problem, "use 'moving-state' or 'background', or let windows run out: run_out=True, --run-out"


def steps(change: BoxChange) -> Iterator[PlanStep]:
    if _stateful(change):
        yield RunBoth(later=True)
        yield AwaitOldRows()
        yield SwitchPlan()
    else:
        yield HoldInputs()
        yield DrainInputs()
        yield SwitchPlan()
        yield ReleaseInputs()
    yield AwaitFirstSteps()
    yield RetirePlan()


def _stateful(change: BoxChange) -> bool:
    """Whether the box keeps anything that the new plan does not go on with as it is."""
    return bool(change.match.recompute or change.match.discard or any(m.covers for m in change.match.matched))
