"""SPRING-RELAX, as NEMO uses it (Chatziliadis et al., PVLDB 17(6)) after Pietzuch et al.: springs among latencies.

Sites get coordinates whose distances approximate the network's latencies. Sources and sinks stay where they are
deployed; every other operator is pulled by its neighbours with a spring as strong as the data between them, until
the forces cancel. Then each is mapped to the site nearest to its point that can run it, on the platform that is
quickest there.
"""

from __future__ import annotations

import numpy as np

from godwit.placement.problem.network import Floats
from godwit.placement.problem.problem import Problem
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.limits import Deadline

DIMENSIONS, LANDMARKS, STEPS, SETTLED = 3, 64, 500, 1e-6


def coordinates(distance: Floats) -> Floats:
    """Landmark multidimensional scaling: sites as points, their distances close to the latencies.

    Some sites, spread evenly, are laid out by classical scaling; the others are placed by their distances to these.
    """
    n = len(distance)
    marks = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(np.int64))
    squared = distance[np.ix_(marks, marks)] ** 2
    mean = squared.mean(axis=1)
    centred = -0.5 * (squared - mean[:, None] - mean[None, :] + squared.mean())
    values, vectors = np.linalg.eigh(centred)
    k = min(DIMENSIONS, int((values > 1e-9).sum()))
    if k == 0:
        return np.zeros((n, 1))
    pull = vectors[:, -k:] / np.sqrt(values[-k:])
    return np.asarray(-0.5 * (distance[:, marks] ** 2 - mean[None, :]) @ pull)


def settle(problem: Problem, points: Floats, clock: Deadline) -> Floats:
    """Where the operators come to rest."""
    site, graph = problem.arrays.site, problem.workflow.graph
    at = points[site[list(problem.root)]].copy()
    pinned = {o for o in graph if graph.in_degree(o) == 0 or graph.out_degree(o) == 0}
    strength = {
        (int(u), int(v)): max(float(m), 1e-3)
        for (u, v), m in zip(problem.arrays.edge, problem.tables.mbps, strict=True)
    }
    for _ in range(STEPS):
        moved = 0.0
        for o in graph:
            pull = [(u, strength[u, o]) for u in graph.predecessors(o)] + [
                (w, strength[o, w]) for w in graph.successors(o)
            ]
            if o in pinned or not pull:
                continue
            rest = sum(k * at[other] for other, k in pull) / sum(k for _, k in pull)
            moved = max(moved, float(np.abs(rest - at[o]).max()))
            at[o] = rest
        if moved < SETTLED or clock.over():
            break
    return at


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    points = coordinates(problem.network.paths.distance)
    at = settle(problem, points, clock)
    plan = tuple(_nearest(problem, points, at[o], o) for o in range(len(problem.root)))
    return finish(problem, options, clock, plan, examined=1, complete=not clock.over())


def _nearest(problem: Problem, points: Floats, point: Floats, operator: int) -> int:
    choices = problem.choices[operator]
    away = np.linalg.norm(points[problem.arrays.site[choices]] - point, axis=1)
    order = np.lexsort((problem.latency[operator, choices], np.round(away, 9)))
    return int(choices[order[0]])
