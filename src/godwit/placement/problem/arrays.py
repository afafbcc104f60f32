"""A problem as flat arrays for the kernels."""

from __future__ import annotations

import math
from typing import Any, Protocol

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from godwit.placement.cost_models.cost import CostTables, Objective
from godwit.placement.kernels.cost import Arrays
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Floats, Network
from godwit.placement.problem.workflow import Workflow


class Parts(Protocol):
    """What of a problem the arrays are made of."""

    @property
    def workflow(self) -> Workflow: ...
    @property
    def network(self) -> Network: ...
    @property
    def tables(self) -> CostTables: ...
    @property
    def root(self) -> tuple[int, ...]: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def constraints(self) -> Constraints: ...
    @property
    def latency(self) -> Floats: ...


def build(problem: Parts) -> Arrays:
    """Everything a kernel needs, C-ordered, in the order of signatures."""
    workflow, network, tables = problem.workflow, problem.network, problem.tables
    n, graph = len(workflow.operators), workflow.graph
    rank = {o: k for k, o in enumerate(workflow.topological)}
    pred_at, pred = _ragged([sorted(graph.predecessors(o)) for o in range(n)])
    succ_at, succ = _ragged([sorted(graph.successors(o)) for o in range(n)])
    desc_at, desc = _ragged([sorted(nx.descendants(graph, o), key=rank.__getitem__) for o in range(n)])
    paths, joint, quick = network.paths, _joint(problem), problem.objective.is_latency
    heavy = np.ones(len(workflow.edges)) if quick else tables.mbps
    edges = [(workflow.index[e.source], workflow.index[e.target]) for e in workflow.edges]
    weight = dict(zip(edges, heavy, strict=True))
    arrays = Arrays(
        topo=np.array(workflow.topological, dtype=np.int64),
        pred_at=pred_at,
        pred=pred,
        pred_weight=np.array([weight[u, o] for o in range(n) for u in sorted(graph.predecessors(o))], dtype=np.float64),
        succ_at=succ_at,
        succ=succ,
        desc_at=desc_at,
        desc=desc,
        is_sink=np.array([graph.out_degree(o) == 0 for o in range(n)], dtype=np.bool_),
        edge=np.array(edges, dtype=np.int64).reshape(-1, 2),
        mbps=tables.mbps,
        site=np.array([s for s, _ in network.actions], dtype=np.int64),
        latency=problem.latency,
        throughput=np.zeros_like(tables.latency) if quick else tables.throughput,
        migration=tables.migration(workflow, network, problem.root),
        distance=paths.distance,
        tree=np.array(paths.tree, dtype=np.int64).reshape(-1, 2),
        tree_up=np.array(paths.tree_up, dtype=np.float64),
        weight=heavy,
        spread=paths.distance if quick else paths.hops,
        own=np.where(np.isfinite(problem.latency), problem.latency, 0.0) if quick else np.zeros_like(tables.latency),
        objective=_objective(problem),
        **joint,
    )
    # one memory layout for every problem, or each new one would compile the kernels again
    plain: list[Any] = [np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
    return Arrays(*plain)


def _ragged(rows: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    at = np.cumsum([0] + [len(r) for r in rows]).astype(np.int64)
    return at, np.array([x for r in rows for x in r], dtype=np.int64)


def _objective(problem: Parts) -> NDArray[np.float64]:
    objective = problem.objective
    weights = objective.weights or (0.0, 0.0, 0.0, 0.0)
    head, tail = float(objective.is_latency), float(problem.constraints.any_joint)
    return np.array([head, *weights, *objective.best, *objective.span, tail])


def _joint(problem: Parts) -> dict[str, Any]:
    """What only whole plans can violate; tiny dummies where a constraint is not in use."""
    workflow, network, limits = problem.workflow, problem.network, problem.constraints
    routed = bool(limits.links or limits.stay_in)
    taken = dict(limits.cpu_taken)
    # one site alone still needs two entries: the kernels read "length 1" as "not in use"
    free = [s.cpu - taken.get(s.name, 0.0) for s in network.sites] + [math.inf]
    regions = sorted({region for _, region in limits.stay_in})
    bound = dict(limits.stay_in)
    link, link_free = _links(problem) if limits.links else (np.zeros((1, 1), dtype=np.int32), np.zeros(1))
    inside = [[s.region == r for s in network.sites] for r in regions] or [[True] * len(network.sites)]
    return {
        "cpu": np.array([o.cpu for o in workflow.operators]),
        "cpu_free": np.array(free) if limits.cpu else np.zeros(1),
        "apart": np.array([(workflow.index[a], workflow.index[b]) for a, b in limits.apart], dtype=np.int64).reshape(
            -1, 2
        ),
        "region": np.array(
            [regions.index(bound[e.source]) if e.source in bound else -1 for e in workflow.edges], dtype=np.int64
        ),
        "inside": np.array(inside, dtype=np.bool_),
        "before": network.paths.before if routed else np.zeros((1, 1), dtype=np.int32),
        "link": link,
        "link_free": link_free,
        "latency_limit": math.inf if limits.latency_limit_ms is None else float(limits.latency_limit_ms),
    }


def _links(problem: Parts) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Directed link number of (from, to), and its capacity; parallel links between two sites add up."""
    network = problem.network
    n = len(network.sites)
    link = np.full((n, n), -1, dtype=np.int32)
    free: list[float] = []
    for each in network.links:
        for u, v in ((network.index[each.a], network.index[each.b]), (network.index[each.b], network.index[each.a])):
            if link[u, v] < 0:
                link[u, v] = len(free)
                free.append(0.0)
            free[link[u, v]] += each.mbps
    return link, np.array([*free, math.inf])
