"""Bounds for the weighted mode: what no plan can beat, in each dimension and in the sum.

Throughput: no plan is faster than its slowest operator on that operator's best action. Latency: the relaxation of
`relax.py`. Traffic: every edge at its cheapest pair of actions. Migration: the largest over the operators of their
least move. The sum is sharper cap by cap: with moves of at most k the other three are bounded on the actions k
leaves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from godwit.placement.base import Clock, Proof
from godwit.placement.cost import Objective
from godwit.placement.kernels import Vector, evaluate_many
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


def weighted_bound(problem: Problem, cost: float, clock: Clock, steps: int = 32) -> Proof:
    """A proven lower bound on the weighted cost, given a plan of that cost.

    For moves in (low, high]: pay for `low`, choose within `high`, and only actions that can be part of something
    cheaper than `cost`.
    """
    arrays, runs = problem.arrays, np.isfinite(problem.latency)
    least = max(float(arrays.migration[o][runs[o]].min()) for o in range(len(runs)))
    values = np.unique(arrays.migration[runs & (arrays.migration >= least)])
    highs = np.unique(np.quantile(values, np.linspace(0, 1, steps), method="higher"))
    lows = np.concatenate([[least], [values[np.searchsorted(values, h, side="right")] for h in highs[:-1]]])
    ideal, bound, slowest_step = _Ideal(problem, cost), cost, 0.0
    for low, high in zip(lows, highs, strict=True):
        step, left = Clock(), clock.left()
        if left is not None and left <= slowest_step:
            bound = min(bound, ideal.unmoved(low))  # the rest must at least pay for moving
            break
        bound = min(bound, ideal.between(low, high))
        slowest_step = max(slowest_step, step.spent())
    return Proof(bound, f"ideal points of {len(highs)} migration caps", optimal=bound >= cost - 1e-9)


class _Ideal:
    """The weighted cost of ideal points: each dimension at its bound."""

    def __init__(self, problem: Problem, cost: float) -> None:
        objective = problem.objective
        self.problem, self.cost, self.relaxation = problem, cost, Relaxation(problem.arrays)
        self.weight = np.array(objective.weights) / np.array(objective.span)
        self.best, self.runs = np.array(objective.best), np.isfinite(problem.latency)

    def price(self, dimension: int, value: float | np.ndarray) -> np.ndarray:
        """What a value of one dimension adds to the cost."""
        return np.asarray(self.weight[dimension] * (value - self.best[dimension]))

    def unmoved(self, low: float) -> float:
        """Everything ideal except migration."""
        return float(self.price(3, low))

    def between(self, low: float, high: float) -> float:
        """The least cost of plans whose farthest move is within low..high, or the known cost if none can be cheaper."""
        arrays = self.problem.arrays
        room = self.cost - float(self.price(3, low))
        allowed = self.runs & (arrays.migration <= high)
        allowed &= self.price(0, -arrays.throughput) < room
        if not allowed.any(axis=1).all():
            return self.cost
        slowest = -min(float(arrays.throughput[o][allowed[o]].max()) for o in range(len(allowed)))
        traffic = sum(_edge_bound(self.problem, allowed, e) for e in range(len(arrays.edge)))
        rest = float(self.price(0, slowest) + self.price(2, traffic) + self.price(3, low))
        limit = self.best[1] + (self.cost - rest) / self.weight[1] if self.weight[1] > 0 else math.inf
        latency = self.relaxation.bound(Domains.of(allowed), limit)
        return min(self.cost, rest + float(self.price(1, latency))) if math.isfinite(latency) else self.cost
