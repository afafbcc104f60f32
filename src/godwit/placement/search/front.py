"""A Pareto front over (-throughput, latency, traffic, migration): lower is better in each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels import cost as kernels
from godwit.placement.kernels.cost import Index, Matrix, Vector, kernel
from godwit.placement.kernels.scan import beats
from godwit.placement.problem.problem import Problem
from godwit.placement.search.base import FrontPlan

Flags = NDArray[np.bool_]


@kernel
def insert(
    rows: Matrix,
    plans: Index,
    costs: Vector,
    alive: Flags,
    expanded: Flags,
    size: int,
    plan: Index,
    vector: Vector,
    cost: float,
) -> int:
    """Append the plan unless a member beats it; members it beats die. Returns the new size."""
    for i in range(size):
        if alive[i] and beats(rows, i, vector[0], vector[1], vector[2], vector[3]):
            return size
    for i in range(size):
        if alive[i] and (
            vector[0] <= rows[i, 0] and vector[1] <= rows[i, 1] and vector[2] <= rows[i, 2] and vector[3] <= rows[i, 3]
        ):
            alive[i] = False
    rows[size], plans[size], costs[size] = vector, plan, cost
    alive[size], expanded[size] = True, False
    return size + 1


@kernel
def insert_moves(
    rows: Matrix,
    plans: Index,
    costs: Vector,
    alive: Flags,
    expanded: Flags,
    size: int,
    parent: Index,
    vectors: Matrix,
    moves: Index,
    found_costs: Vector,
    found: int,
) -> int:
    """`insert` for each single move of a parent, cheapest first."""
    child = parent.copy()
    for k in np.argsort(found_costs[:found], kind="mergesort"):
        kept = child[moves[k, 0]]
        child[moves[k, 0]] = moves[k, 1]
        size = insert(rows, plans, costs, alive, expanded, size, child, vectors[k], found_costs[k])
        child[moves[k, 0]] = kept
    return size


class Front:
    """Grows by `add`; members can be marked as expanded. The order of adding decides between equals."""

    def __init__(self, operators: int) -> None:
        self.size = 0
        self.vectors = np.empty((1024, 4))
        self.plans = np.empty((1024, operators), dtype=np.int64)
        self.costs = np.empty(1024)
        self.alive = np.zeros(1024, dtype=np.bool_)
        self.expanded = np.zeros(1024, dtype=np.bool_)

    def add(self, plan: Index, vector: Vector, cost: float) -> None:
        """Take the plan in unless a member beats it; members it beats are dropped."""
        self._make_room(1)
        self.size = insert(
            self.vectors, self.plans, self.costs, self.alive, self.expanded, self.size, plan, vector, cost
        )

    def add_moves(self, parent: Index, vectors: Matrix, moves: Index, costs: Vector, found: int) -> None:
        """`add` for each of the moves found from a parent, cheapest first."""
        self._make_room(found)
        self.size = insert_moves(
            self.vectors,
            self.plans,
            self.costs,
            self.alive,
            self.expanded,
            self.size,
            parent,
            vectors,
            moves,
            costs,
            found,
        )

    def next_round(self, count: int) -> Index:
        """The cheapest members not yet expanded (their plans), now marked as expanded."""
        waiting = np.flatnonzero(self.alive[: self.size] & ~self.expanded[: self.size])
        chosen = waiting[np.argsort(self.costs[waiting], kind="stable")[:count]]
        self.expanded[chosen] = True
        return np.asarray(self.plans[chosen])

    def members(self) -> Index:
        """Positions of the members, cheapest first."""
        members = np.flatnonzero(self.alive[: self.size])
        return np.asarray(members[np.argsort(self.costs[members], kind="stable")])

    def least(self) -> float:
        """The lowest cost of a member."""
        return float(self.costs[: self.size][self.alive[: self.size]].min())

    def snapshot(self) -> Matrix:
        """The members' vectors, cheapest first: they are the likeliest to beat a newcomer."""
        return np.asarray(self.vectors[self.members()])

    def export(self, problem: Problem) -> tuple[FrontPlan, ...]:
        """The members as values, cheapest first; in latency mode those that count on latency and migration alone."""
        members = self.members()
        members = members[self.costs[members] < kernels.BROKEN]
        if problem.objective.is_latency:
            members = self._on_latency(members)
        plans = np.ascontiguousarray(self.plans[members])
        return tuple(
            FrontPlan(tuple(plan), seen) for plan, seen in zip(plans.tolist(), problem.evaluate_all(plans), strict=True)
        )

    def _on_latency(self, members: Index) -> Index:
        """Those of the members (cheapest first) that none beats when traffic does not count."""
        best, vectors = Front(1), self.vectors[members]
        vectors[:, 2] = 0.0
        for position, vector, cost in zip(members, vectors, self.costs[members], strict=True):
            best.add(np.array([position]), vector, float(cost))
        return np.asarray(best.plans[best.members(), 0])

    def _make_room(self, more: int) -> None:
        """Drop the dead when the arrays are full; double them if that frees too little."""
        if self.size + more <= len(self.costs):
            return
        keep = np.flatnonzero(self.alive[: self.size])
        room = len(self.costs)
        while 2 * len(keep) + more > room:
            room *= 2
        for name in ("vectors", "plans", "costs", "alive", "expanded"):
            old = getattr(self, name)
            new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
            new[: len(keep)] = old[keep]
            setattr(self, name, new)
        self.size = len(keep)


def whole_front(problem: Problem) -> Front:
    """The exact front of a small space: every allowed plan is offered, cheapest first."""
    grids = np.meshgrid(*problem.choices, indexing="ij")
    plans = np.ascontiguousarray(np.stack([g.ravel() for g in grids], axis=1))
    vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))
    kernels.evaluate_many(problem.arrays, plans, vectors, costs)
    front = Front(plans.shape[1])
    for i in np.argsort(costs, kind="stable"):
        if costs[i] < kernels.BROKEN:
            front.add(plans[i], vectors[i], float(costs[i]))
    return front
