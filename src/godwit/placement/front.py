"""A Pareto front over (-throughput, latency, traffic, migration): lower is better in each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement import kernels
from godwit.placement.base import FrontPlan
from godwit.placement.kernels import kernel
from godwit.placement.problem import Problem
from godwit.placement.scan import beats

Matrix = NDArray[np.float64]


@kernel
def _insert(rows: Matrix, alive: NDArray[np.bool_], size: int, vector: NDArray[np.float64]) -> bool:
    """Whether the vector may join; if so, the rows it beats die."""
    for i in range(size):
        if alive[i] and beats(rows, i, vector[0], vector[1], vector[2], vector[3]):
            return False
    for i in range(size):
        if alive[i] and (
            vector[0] <= rows[i, 0] and vector[1] <= rows[i, 1] and vector[2] <= rows[i, 2] and vector[3] <= rows[i, 3]
        ):
            alive[i] = False
    return True


class Front:
    """Grows by `add`; members can be marked as expanded. The order of adding decides between equals."""

    def __init__(self, operators: int) -> None:
        self.size = 0
        self.vectors = np.empty((1024, 4))
        self.plans = np.empty((1024, operators), dtype=np.int64)
        self.costs = np.empty(1024)
        self.alive = np.zeros(1024, dtype=np.bool_)
        self.expanded = np.zeros(1024, dtype=np.bool_)

    def add(self, plan: NDArray[np.int64], vector: NDArray[np.float64], cost: float) -> bool:
        """Take the plan in unless a member beats it; members it beats are dropped."""
        if not _insert(self.vectors, self.alive, self.size, vector):
            return False
        if self.size == len(self.costs):
            self._make_room()
        i = self.size
        self.vectors[i], self.plans[i], self.costs[i] = vector, plan, cost
        self.alive[i], self.expanded[i] = True, False
        self.size += 1
        return True

    def next_round(self, count: int) -> NDArray[np.int64]:
        """The cheapest members not yet expanded (their plans), now marked as expanded."""
        waiting = np.flatnonzero(self.alive[: self.size] & ~self.expanded[: self.size])
        chosen = waiting[np.argsort(self.costs[waiting], kind="stable")[:count]]
        self.expanded[chosen] = True
        return self.plans[chosen].copy()

    def snapshot(self) -> Matrix:
        """The members' vectors, cheapest first: they are the likeliest to beat a newcomer."""
        members = self.members()
        return self.vectors[members[np.argsort(self.costs[members], kind="stable")]]

    def members(self) -> NDArray[np.int64]:
        """Positions of the members."""
        return np.flatnonzero(self.alive[: self.size])

    def export(self, problem: Problem) -> tuple[FrontPlan, ...]:
        """The members as values, cheapest first."""
        members = self.members()
        order = members[np.argsort(self.costs[members], kind="stable")]
        plans = [tuple(self.plans[i].tolist()) for i in order]
        return tuple(FrontPlan(p, problem.evaluate(p)) for p in plans)

    def _make_room(self) -> None:
        """Drop the dead; double the arrays if that frees too little."""
        keep = self.members()
        room = len(self.costs) * (2 if 2 * len(keep) > len(self.costs) else 1)
        for name in ("vectors", "plans", "costs", "alive", "expanded"):
            old = getattr(self, name)
            new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
            new[: len(keep)] = old[keep]
            setattr(self, name, new)
        self.size = len(keep)


def whole_front(problem: Problem) -> Front:
    """The exact front of a small space: every allowed plan is offered, in the order of signatures."""
    grids = np.meshgrid(*problem.choices, indexing="ij")
    plans = np.ascontiguousarray(np.stack([g.ravel() for g in grids], axis=1))
    vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))
    kernels.evaluate_many(problem.arrays, plans, vectors, costs)
    front = Front(plans.shape[1])
    for i in np.argsort(costs, kind="stable"):
        if costs[i] < 1e12:
            front.add(plans[i], vectors[i], float(costs[i]))
    return front
