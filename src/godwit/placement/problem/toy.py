"""Two tiny problems, one a mode: enough to make every kernel compile."""

from __future__ import annotations

import numpy as np

from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.problem import Problem
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator


def toy_problems() -> tuple[Problem, ...]:
    """A diamond of four operators on three sites in a row: latency mode, weighted mode, and one with constraints."""
    workflow = Workflow(
        "toy",
        tuple(WorkflowOperator(n, cpu=1.0) for n in "abcd"),
        tuple(DataEdge(u, v) for u, v in ("ab", "ac", "bd", "cd")),
    )
    network = Network(
        tuple(NetworkSite(n, cpu=2.0) for n in "xyz"),
        (NetworkLink("x", "y", 1.0, 9.0), NetworkLink("y", "z", 1.0, 9.0)),
    )
    latency = np.array([[1.0, 2.0, 9.0], [9.0, 1.0, 5.0], [5.0, 9.0, 1.0], [3.0, 3.0, 1.0]])
    tables = CostTables(latency, 1.0 / latency, np.ones(4), np.zeros(4), np.ones(4))
    root = (0, 0, 0, 0)
    constraints = Constraints(apart=(("a", "d"),), cpu=True, links=True, latency_limit_ms=100.0)
    return (
        build_problem(workflow, network, tables, root),
        build_problem(workflow, network, tables, root, Objective.weighted()),
        build_problem(workflow, network, tables, root, constraints=constraints),
    )
