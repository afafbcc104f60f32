"""Bounds for the weighted mode: what no plan can beat, in each dimension and in the sum.

Throughput: no plan is faster than its slowest operator on that operator's best action. Latency: the relaxation of `relax.py`.
Traffic: every edge at its cheapest pair of actions. Migration: the largest over the operators of their least move.
The sum is sharper cap by cap: with moves of at most k the other three are bounded on the actions k leaves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from godwit.placement.base import Clock, Proof
from godwit.placement.cost import Objective
from godwit.placement.kernels import BROKEN, Matrix, Vector, evaluate_many
from godwit.placement.problem import Problem
from godwit.placement.relax import Domains, Relaxation

#: plans drawn (fixed seed) to find the worst value of each dimension
SAMPLE = 1024


def dimension_bounds(problem: Problem, allowed: np.ndarray, relaxation: Relaxation) -> Vector:
    """(-throughput, latency, traffic, migration): no plan within `allowed` is better in any of them."""
    arrays = problem.arrays
    slowest = min(float(arrays.throughput[o][allowed[o]].max()) for o in range(len(allowed)))
    latency = relaxation.bound(Domains.of(allowed))
    traffic = sum(_edge_bound(problem, allowed, e) for e in range(len(arrays.edge)))
    migration = max(float(arrays.migration[o][allowed[o]].min()) for o in range(len(allowed)))
    return np.array([-slowest, latency, traffic, migration])


def _edge_bound(problem: Problem, allowed: np.ndarray, e: int) -> float:
    arrays = problem.arrays
    u, v = arrays.edge[e]
    a, b = np.unique(arrays.site[allowed[u]]), np.unique(arrays.site[allowed[v]])
    if np.intersect1d(a, b).size:
        return 0.0
    return float(problem.tables.mbps[e] * problem.network.paths.hops[np.ix_(a, b)].min())


def normalised(problem: Problem) -> Objective:
    """The objective with bound and span of each dimension on this problem (see `cost.py`)."""
    allowed = np.isfinite(problem.latency)
    best = dimension_bounds(problem, allowed, Relaxation(problem.arrays))
    worst = _sampled_worst(problem)
    span = np.where(worst - best > 1e-12, worst - best, 1.0)
    return replace(problem.objective, best=tuple(best.tolist()), span=tuple(span.tolist()))


def _sampled_worst(problem: Problem) -> Vector:
    random = np.random.default_rng(20251)
    plans = np.stack([random.choice(c, SAMPLE) for c in problem.choices], axis=1)
    runs = all(np.isfinite(problem.latency[o, a]) for o, a in enumerate(problem.root))
    if runs:
        plans = np.vstack([plans, np.array(problem.root)])
    vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))
    evaluate_many(problem.arrays, np.ascontiguousarray(plans), vectors, costs)
    return np.asarray(vectors.max(axis=0))


def weighted_bound(problem: Problem, clock: Clock, steps: int = 24) -> Proof:
    """A proven lower bound on the weighted cost: for moves in (low, high], pay for `low`, choose within `high`."""
    arrays, objective = problem.arrays, problem.objective
    weights, best, span = (np.array(x) for x in (objective.weights, objective.best, objective.span))
    allowed = np.isfinite(problem.latency)
    least = max(float(arrays.migration[o][allowed[o]].min()) for o in range(len(allowed)))
    values = np.unique(arrays.migration[allowed & (arrays.migration >= least)])
    highs = np.unique(np.quantile(values, np.linspace(0, 1, steps), method="higher"))
    relaxation, lows = Relaxation(arrays), np.concatenate([[least], highs[:-1]])
    bound = math.inf
    for low, high in zip(lows, highs, strict=True):
        if clock.over():  # the rest is bounded by what it must at least pay for moving
            bound = min(bound, float(_sum(np.array([best[0], best[1], best[2], low]), weights, best, span)))
            break
        ideal = dimension_bounds(problem, allowed & (arrays.migration <= high), relaxation)
        ideal[3] = low
        bound = min(bound, float(_sum(ideal, weights, best, span)))
    return Proof(bound, f"ideal points of {len(highs)} migration caps")


def _sum(vector: Vector, weights: Vector, best: Vector, span: Vector) -> float:
    return float(np.sum(weights * (vector - best) / span))


def feasible(costs: Matrix) -> np.ndarray:
    """Which of these costs belong to plans that keep all constraints."""
    return np.asarray(costs < BROKEN)
