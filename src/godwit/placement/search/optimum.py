"""The proven optimum of the latency mode: cost = int(1000 latency) + int(1000 farthest move).

Cap by cap (`caps.py`); most caps are closed by their bound alone. Inside an open one, branch and bound decides the
operators with several consumers: with these fixed, the relaxation is a dynamic programme over a forest, exact, and
its plan is the cap's optimum. Caps are taken in the order of their bounds, so that a time limit leaves a proven gap.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.proof.bounds import weighted_bound
from godwit.placement.proof.caps import Caps
from godwit.placement.proof.relax import Domains
from godwit.placement.search import heuristic
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.limits import Deadline, Proof


class _Solver:
    """The incumbent and the branching; one instance a call."""

    def __init__(self, problem: Problem, start: PlanVector, clock: Deadline) -> None:
        self.problem, self.clock = problem, clock
        self.caps = Caps(problem)
        self.plan, self.cost = start, problem.evaluate(start).cost
        self.nodes, self.stopped = 0, False
        # with constraints on whole plans no relaxation is exact: every operator must be decided
        everything, degree = problem.constraints.any_joint, problem.workflow.graph.out_degree
        self.coupling = [o for o in range(len(start)) if everything or degree(o) > 1]

    def solve(self) -> float:
        """Close every cap; returns the proven bound (the cost itself when all are closed)."""
        for bound, cap in self.caps.waiting(self.cost):
            if bound >= self.cost:
                break
            domains = self.caps.domains(cap, self.cost)
            if domains.sizes.all():
                self.branch(domains, cap)
            if self.stopped:
                return min(bound, self.cost)
        return self.cost

    def branch(self, domains: Domains, cap: float) -> None:
        """The best plan under the cap, if it beats the incumbent; gives up (stopped) when the clock runs out."""
        if self.clock.over():
            self.stopped = True
            return
        self.nodes += 1
        relaxation = self.caps.relaxation
        if not math.isfinite(relaxation.bound(domains, (self.cost - cap) / 1000.0)):
            return
        self._offer(relaxation.plan(domains))
        still_open = [o for o in self.coupling if domains.sizes[o] > 1]
        if not still_open:
            return
        operator = min(still_open, key=lambda o: (domains.sizes[o], o))
        actions = domains.lists[operator, : domains.sizes[operator]]
        for a in actions[np.argsort(relaxation.through[operator, actions], kind="stable")]:
            self.branch(domains.fix(operator, int(a)), cap)
            if self.stopped:
                return

    def _offer(self, plan: np.ndarray) -> None:
        vector = tuple(int(a) for a in plan)
        cost = self.problem.evaluate(vector).cost
        if cost < self.cost:
            self.plan, self.cost = vector, cost


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`. In the weighted mode: HEURISTIC's answer with a proven bound."""
    clock = Deadline(options.seconds)
    first = heuristic.search(
        problem, replace(options, seconds=None if options.seconds is None else options.seconds / 2)
    )
    if not problem.objective.is_latency:
        proof = weighted_bound(problem, first.cost, clock)
        return replace(first, algorithm=options.name, proof=proof, seconds=clock.spent())
    return prove(problem, options, first.plan, clock, examined=first.examined)


def prove(problem: Problem, options: Options, start: PlanVector, clock: Deadline, *, examined: int = 0) -> SearchResult:
    """Improve a plan to the optimum and prove it, or prove a gap when time runs out."""
    solver = _Solver(problem, start, clock)
    bound = solver.solve()
    done = not solver.stopped
    how = (
        f"every migration cap closed by branch and bound, {solver.nodes} nodes"
        if done
        else (f"relaxed longest paths for the open migration caps, {solver.nodes} nodes")
    )
    return finish(
        problem,
        options,
        clock,
        solver.plan,
        examined=examined + solver.nodes,
        complete=done,
        proof=Proof(bound, how, optimal=done),
    )
