"""Bounds for the weighted mode: what no plan can beat, in each dimension and in the sum.

Throughput: no plan is faster than its slowest operator on that operator's best action. Latency: the relaxation of
`relax.py`. Traffic: every edge at its cheapest pair of actions. Migration: the largest over the operators of their
least move. The sum is sharper cap by cap: with moves of at most k the other three are bounded on the actions k
leaves.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np

from godwit.placement.cost_models.cost import Objective
from godwit.placement.kernels.cost import Vector, evaluate_many
from godwit.placement.problem.problem import Problem
from godwit.placement.proof.relax import Domains, Relaxation
from godwit.placement.search.limits import Deadline, Proof

#: plans drawn (fixed seed) to find the worst value of each dimension
SAMPLE = 1024


def dimension_bounds(problem: Problem, allowed: np.ndarray, relaxation: Relaxation) -> Vector:
    """(-throughput, latency, traffic, migration): no plan within `allowed` is better in any of them."""
    arrays = problem.arrays
    slowest = min(float(arrays.throughput[o][allowed[o]].max()) for o in range(len(allowed)))
    latency = relaxation.bound(Domains.of(allowed))
    traffic = _traffic_bound(problem, allowed)
    migration = max(float(arrays.migration[o][allowed[o]].min()) for o in range(len(allowed)))
    return np.array([-slowest, latency, traffic, migration])


def _traffic_bound(problem: Problem, allowed: np.ndarray) -> float:
    """Every edge at its cheapest pair of sites; 0 where its two operators can share one."""
    arrays, sites = problem.arrays, problem.network.sites
    at = np.zeros((len(allowed), len(sites)), dtype=np.bool_)
    for o, row in enumerate(allowed):
        at[o, arrays.site[row]] = True
    total = 0.0
    for (u, v), mbps in zip(arrays.edge, problem.tables.mbps, strict=True):
        if mbps > 0 and not (at[u] & at[v]).any():
            total += mbps * float(problem.network.paths.hops[np.ix_(at[u], at[v])].min())
    return total


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


def weighted_bound(problem: Problem, cost: float, clock: Deadline, steps: int = 400) -> Proof:
    """A proven lower bound on the weighted cost, given a plan of that cost.

    Plans are sorted into boxes by farthest move and throughput. A box is bounded by its ideal point: its least move,
    its best throughput, and the least latency and traffic on the actions that it leaves. The weakest box is split
    until time or steps run out, so the bound is valid, and useful, whenever it stops.
    """
    boxes = _Boxes(problem, cost)
    heap = [(boxes.bound(box), box) for box in boxes.start()]
    slowest_step = 0.0
    for _ in range(steps):
        bound, box = heap[0]
        left, step = clock.left(), Deadline()
        if bound >= cost - 1e-12 or (left is not None and left <= slowest_step):
            break
        halves = boxes.split(box)
        if not halves:
            break
        heapq.heappop(heap)
        for half in halves:
            heapq.heappush(heap, (max(bound, boxes.bound(half)), half))
        slowest_step = max(slowest_step, step.spent())
    bound = min(heap[0][0], cost)
    return Proof(bound, f"ideal points of {len(heap)} boxes of plans", optimal=bound >= cost - 1e-9)


#: positions in the sorted moves (first, last) and in the sorted throughputs (first, last)
Box = tuple[int, int, int, int]


class _Boxes:
    """Bounds and halves of boxes of plans."""

    def __init__(self, problem: Problem, cost: float) -> None:
        objective, arrays = problem.objective, problem.arrays
        self.problem, self.cost, self.relaxation = problem, cost, Relaxation(arrays)
        self.weight = np.array(objective.weights) / np.array(objective.span)
        self.best, self.runs = np.array(objective.best), np.isfinite(problem.latency)
        least = max(float(m[r].min()) for m, r in zip(arrays.migration, self.runs, strict=True))
        most = min(float(t[r].max()) for t, r in zip(arrays.throughput, self.runs, strict=True))
        self.moves = np.unique(arrays.migration[self.runs & (arrays.migration >= least)])
        self.speeds = np.unique(arrays.throughput[self.runs & (arrays.throughput <= most)])

    def start(self) -> list[Box]:
        """The box of all plans."""
        return [(0, len(self.moves) - 1, 0, len(self.speeds) - 1)]

    def price(self, dimension: int, value: float) -> float:
        """What a value of one dimension adds to the cost."""
        return float(self.weight[dimension] * (value - self.best[dimension]))

    def split(self, box: Box) -> list[Box]:
        """Two halves, along the side that costs more; none of a box with a single move and a single throughput."""
        near, far, slow, fast = box
        wide = self.price(3, self.moves[far]) - self.price(3, self.moves[near])
        high = self.price(0, -self.speeds[slow]) - self.price(0, -self.speeds[fast])
        if far > near and (wide >= high or fast == slow):
            half = (near + far) // 2
            return [(near, half, slow, fast), (half + 1, far, slow, fast)]
        if fast > slow:
            half = (slow + fast) // 2
            return [(near, far, slow, half), (near, far, half + 1, fast)]
        return []

    def bound(self, box: Box) -> float:
        """The least cost of the plans in a box, or the known cost if none can be cheaper."""
        near, far, slow, fast = box
        arrays = self.problem.arrays
        allowed = self.runs & (arrays.migration <= self.moves[far]) & (arrays.throughput >= self.speeds[slow])
        paid = self.price(3, self.moves[near]) + self.price(0, -self.speeds[fast])
        if paid >= self.cost or not allowed.any(axis=1).all():
            return self.cost
        paid += self.price(2, _traffic_bound(self.problem, allowed))
        limit = self.best[1] + (self.cost - paid) / self.weight[1] if self.weight[1] > 0 else math.inf
        latency = self.relaxation.bound(Domains.of(allowed), limit) if limit > 0 else math.inf
        return min(self.cost, paid + self.price(1, latency)) if math.isfinite(latency) else self.cost
