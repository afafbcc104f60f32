"""The proven optimum of the latency mode: cost = int(1000 latency) + int(1000 farthest move).

Migration is a maximum, so it is enumerated: for each cap k (the distinct move costs) only actions with a move of at most
k stay, and the latency of the rest is minimised. A cap whose relaxed bound (`relax.py`) plus k is no better than the best plan
known is done at once; few are not. Inside a cap, branch and bound decides the operators with several consumers: with
these fixed the relaxation is a dynamic programme over a forest, exact, and its plan is the cap's optimum.
Caps are taken in the order of their bounds, so a time limit leaves a proven gap.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np

from godwit.placement import heuristic
from godwit.placement.base import Answer, Clock, Options, Proof, finish
from godwit.placement.bounds import weighted_bound
from godwit.placement.problem import PlanVector, Problem
from godwit.placement.relax import Domains, Relaxation


class _Solver:
    """The incumbent and the branching; one instance a call."""

    def __init__(self, problem: Problem, start: PlanVector, clock: Clock) -> None:
        self.problem, self.clock = problem, clock
        self.relaxation = Relaxation(problem.arrays)
        self.moves = np.floor(1000.0 * problem.arrays.migration)
        self.plan, self.cost = start, problem.evaluate(start).cost
        self.nodes, self.stopped = 0, False
        degree = problem.workflow.graph.out_degree
        # with joint constraints no relaxation is exact: every operator must be decided
        everything = problem.constraints.any_joint
        self.coupling = [o for o in range(len(start)) if everything or degree(o) > 1]

    def caps(self) -> list[tuple[float, float]]:
        """(bound on the cost, cap) for every cap that may still beat the incumbent, best bound first."""
        allowed = np.isfinite(self.problem.latency)
        domains = Domains.of(allowed)
        free = self.relaxation.bound(domains, self.cost / 1000.0)
        if not math.isfinite(free):
            return []
        through = np.where(allowed, np.inf, np.inf)
        for o in range(len(self.plan)):
            kept = domains.lists[o, : domains.sizes[o]]
            through[o, kept] = self.relaxation.through[o, kept]
        self.through = through
        # an operator must be somewhere: no cap below the least move any of them can make
        least = max(float(self.moves[o][allowed[o]].min()) for o in range(len(self.plan)))
        values = np.unique(self.moves[np.isfinite(through)])
        values = values[(values >= least) & (values + math.floor(1000.0 * (free - 1e-9)) < self.cost)]
        bounds = [(self._cap_bound(k), float(k)) for k in values]
        return sorted(b for b in bounds if b[0] < self.cost)

    def domains(self, cap: float) -> tuple[Domains, float]:
        """What may be in a plan with moves of at most `cap` that beats the incumbent, and the latency limit for that."""
        limit = (self.cost - cap) / 1000.0
        return Domains.of((self.moves <= cap) & (self.through < limit + 1e-9)), limit

    def _cap_bound(self, cap: float) -> float:
        domains, limit = self.domains(cap)
        if not domains.sizes.all():
            return math.inf
        bound = self.relaxation.bound(domains, limit)
        return math.inf if not math.isfinite(bound) else math.floor(1000.0 * (bound - 1e-9)) + cap

    def offer(self, plan: np.ndarray) -> None:
        """Keep the plan if it is better."""
        vector = tuple(int(a) for a in plan)
        cost = self.problem.evaluate(vector).cost
        if (cost, vector) < (self.cost, self.plan):
            self.plan, self.cost = vector, cost

    def branch(self, domains: Domains, cap: float) -> None:
        """Best plan under the cap, if it beats the incumbent; gives up (stopped) when the clock runs out."""
        if self.clock.over():
            self.stopped = True
            return
        self.nodes += 1
        bound = self.relaxation.bound(domains, (self.cost - cap) / 1000.0)
        if not math.isfinite(bound):
            return
        self.offer(self.relaxation.plan(domains))
        still_open = [o for o in self.coupling if domains.sizes[o] > 1]
        if not still_open:
            return
        operator = min(still_open, key=lambda o: (domains.sizes[o], o))
        actions = domains.lists[operator, : domains.sizes[operator]].copy()
        order = np.argsort(self.relaxation.through[operator, actions], kind="stable")
        for a in actions[order]:
            self.branch(domains.fix(operator, int(a)), cap)
            if self.stopped:
                return

    def solve(self) -> float:
        """Go through the caps; returns the proven bound (the cost itself when all are done)."""
        waiting = self.caps()
        heapq.heapify(waiting)
        while waiting and waiting[0][0] < self.cost:
            bound, cap = waiting[0]
            domains, _ = self.domains(cap)
            if domains.sizes.all():
                self.branch(domains, cap)
            if self.stopped:
                return min(bound, self.cost)
            heapq.heappop(waiting)
        return self.cost


def search(problem: Problem, options: Options) -> Answer:
    """See `base.Search`. In the weighted mode: HEURISTIC's answer with a proven bound."""
    clock = Clock(options.seconds)
    first = heuristic.search(problem, replace(options, seconds=None if options.seconds is None else options.seconds / 2))
    if not problem.objective.is_latency:
        bound = weighted_bound(problem, clock)
        return replace(first, algorithm=options.name, proof=bound, seconds=clock.spent())
    return prove(problem, options, first.plan, clock, examined=first.examined)


def prove(problem: Problem, options: Options, start: PlanVector, clock: Clock, *, examined: int = 0) -> Answer:
    """Improve a plan to the optimum and prove it, or prove a gap when time runs out."""
    solver = _Solver(problem, start, clock)
    bound = solver.solve()
    done = not solver.stopped
    how = f"every migration cap closed by branch and bound, {solver.nodes} nodes" if done else (
        f"relaxed longest paths for the open migration caps, {solver.nodes} nodes")  # fmt: skip
    return finish(problem, options, clock, solver.plan, examined=examined + solver.nodes, complete=done,
                  proof=Proof(bound, how, optimal=done))  # fmt: skip
