"""A placement problem from its parts: checked against each other, with the objective normalised on it."""

from __future__ import annotations

from dataclasses import replace

from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.workflow import Workflow


def build_problem(
    workflow: Workflow,
    network: Network,
    tables: CostTables,
    root: PlanVector,
    objective: Objective | None = None,
    constraints: Constraints | None = None,
) -> Problem:
    """The problem; an error says which parts do not fit."""
    wanted = objective or Objective.latency_only()
    problem = Problem(workflow, network, tables, tuple(root), wanted, constraints or Constraints()).checked()
    if problem.objective.is_latency:
        return problem
    from godwit.placement.proof.bounds import normalised  # numba, which latency problems do not need

    return replace(problem, objective=normalised(problem))
