"""The exact model for any network: reduced where links never bind, with lazy cuts where they may."""

from __future__ import annotations

from godwit.admission import linked, reduced
from godwit.admission.literal import LiteralSolution
from godwit.admission.scope import PlanningScope


def optimum(scope: PlanningScope, seconds: float) -> LiteralSolution:
    """The optimal plan of III.8 with IV.9."""
    return reduced.solve(scope, seconds) if scope.links is None else linked.solve(scope, seconds)


def any_plan(scope: PlanningScope, seconds: float) -> LiteralSolution:
    """Some plan, or the proof that there is none."""
    return reduced.first_plan(scope, seconds) if scope.links is None else linked.solve(scope, seconds, any_plan=True)
