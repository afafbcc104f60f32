"""Random placement problems and a plain-Python reference for what a plan costs."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network, NetworkLink, NetworkSite
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.workflow import DataEdge, Workflow, WorkflowOperator

DATA = Path(os.environ.get("GODWIT_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "placement"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the published placement instances are not in {DATA}")


def random_problem(
    seed: int,
    operators: int = 4,
    sites: int = 3,
    *,
    weighted: bool = False,
    tree: bool = True,
    forbid: float = 0.2,
    platforms: int = 1,
    constraints: Constraints | None = None,
    cpu: float = math.inf,
) -> Problem:
    """A random DAG on a random connected network; some operators cannot run everywhere."""
    rng = np.random.default_rng(seed)
    names = [f"op{i}" for i in range(operators)]
    order = rng.permutation(operators)
    edges = [
        DataEdge(names[order[i]], names[order[j]], float(rng.integers(1, 9)))
        for j in range(1, operators)
        for i in range(j)
        if rng.random() < 0.5 or i == j - 1
    ]
    workflow = Workflow("w", tuple(WorkflowOperator(n, cpu=1.0) for n in names), tuple(edges))
    nodes = [
        NetworkSite(f"s{i}", tuple(f"p{k}" for k in range(platforms)), cpu=cpu, region="eu" if i % 2 else "us")
        for i in range(sites)
    ]
    links = [
        NetworkLink(f"s{i}", f"s{int(rng.integers(0, i))}", float(rng.integers(0, 11)) / 10, 20.0)
        for i in range(1, sites)
    ]
    if not tree and sites > 2:
        links.append(NetworkLink("s0", f"s{sites - 1}", 0.3, 20.0))
    network = Network(tuple(nodes), tuple(links))
    actions = len(network.actions)
    latency = rng.uniform(0.1, 5.0, size=(operators, actions))
    latency[(rng.random(latency.shape) < forbid) & (np.arange(actions) != 0)] = math.inf
    throughput = np.where(np.isfinite(latency), rng.uniform(1.0, 50.0, size=latency.shape), 0.0)
    tables = CostTables(
        latency, throughput, np.array([e.mbps for e in edges]), rng.uniform(0, 1, operators), np.ones(operators)
    )
    runs = [np.flatnonzero(np.isfinite(row)) for row in latency]
    root = tuple(int(rng.choice(r)) for r in runs)
    objective = Objective.weighted() if weighted else Objective.latency_only()
    return build_problem(workflow, network, tables, root, objective, constraints)


def reference_cost(problem: Problem, plan: PlanVector) -> float:
    """The definition, written as plainly as possible."""
    workflow, network = problem.workflow, problem.network
    site = [network.actions[a][0] for a in plan]
    distance, lat = network.paths.distance, {}
    for o in workflow.topological:
        arrive = max((lat[u] + distance[site[u], site[o]] for u in workflow.graph.predecessors(o)), default=0.0)
        lat[o] = problem.latency[o, plan[o]] + arrive
    latency = max(lat[o] for o in workflow.graph if workflow.graph.out_degree(o) == 0)
    if not math.isfinite(latency):
        return math.inf
    moved = problem.tables.migration(workflow, network, problem.root)
    migration = max(moved[o, a] for o, a in enumerate(plan))
    if problem.objective.is_latency:
        return float(int(1000 * latency) + int(1000 * migration))
    traffic = sum(
        m * network.paths.hops[site[workflow.index[e.source]], site[workflow.index[e.target]]]
        for m, e in zip(problem.tables.mbps, workflow.edges, strict=True)
    )
    slowest = min(problem.tables.throughput[o, a] for o, a in enumerate(plan))
    values = (-slowest, latency, traffic, migration)
    assert problem.objective.weights is not None
    parts = zip(problem.objective.weights, values, problem.objective.best, problem.objective.span, strict=True)
    return float(sum(w * (x - b) / s for w, x, b, s in parts))


def all_plans(problem: Problem) -> list[PlanVector]:
    """Every plan, runnable or not, in the order of signatures."""
    return list(itertools.product(range(len(problem.network.actions)), repeat=len(problem.root)))


problems = st.builds(
    random_problem,
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.integers(1, 4),
    weighted=st.booleans(),
    tree=st.booleans(),
    platforms=st.integers(1, 2),
)
