"""When constraints leave no plan: find one that keeps them all, or the few that contradict each other.

A backtracking search with forward checking decides whether a set of demands can be met. If not, demands are taken
away one by one as long as the rest still cannot be met: what remains is a clash in which every member counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from godwit.errors import PlacementError
from godwit.placement.kernels.cost import BROKEN, evaluate
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.proof.relax import Domains, Relaxation
from godwit.placement.search.limits import Deadline

Mask = NDArray[np.bool_]


class _UndecidedError(Exception):
    """The clock ran out before an answer."""


@dataclass
class _Checker:
    """Backtracking over operators, fewest choices first."""

    problem: Problem
    clock: Deadline

    def __post_init__(self) -> None:
        problem, limits = self.problem, self.problem.constraints
        self.ar, self.relaxation = problem.arrays, Relaxation(problem.arrays)
        taken = dict(limits.cpu_taken)
        self.free = np.array([s.cpu - taken.get(s.name, 0.0) for s in problem.network.sites])
        self.limit = limits.latency_limit_ms

    def solve(self) -> PlanVector | None:
        """A plan that keeps everything, or None if there is none."""
        allowed = np.isfinite(self.problem.latency)
        if self.problem.constraints.cpu:
            for o, row in enumerate(allowed):
                row &= self.free[self.ar.site] >= self.ar.cpu[o] - 1e-9
        return self._step(allowed, {}, self.free.copy())

    def _step(self, allowed: Mask, placed: dict[int, int], free: NDArray[np.float64]) -> PlanVector | None:
        if self.clock.over():
            raise _UndecidedError
        if not allowed.any(axis=1).all() or not self._room(placed, free) or not self._in_time(allowed):
            return None
        if len(placed) == len(allowed):
            plan = np.array([placed[o] for o in range(len(allowed))], dtype=np.int64)
            kept = evaluate(self.ar, plan, np.empty(4)) < BROKEN
            return tuple(plan.tolist()) if kept else None
        o = min((o for o in range(len(allowed)) if o not in placed), key=lambda o: (allowed[o].sum(), o))
        for a in self._ordered(allowed, o):
            narrowed, left = self._place(allowed, free, o, int(a))
            found = self._step(narrowed, {**placed, o: int(a)}, left)
            if found is not None:
                return found
        return None

    def _ordered(self, allowed: Mask, o: int) -> NDArray[np.int64]:
        """Roomy sites first, then quick ones: feasible plans show up early."""
        actions = np.flatnonzero(allowed[o])
        room = -np.minimum(self.free[self.ar.site[actions]], 1e18)
        return np.asarray(actions[np.lexsort((self.ar.latency[o, actions], room))])

    def _place(self, allowed: Mask, free: NDArray[np.float64], o: int, a: int) -> tuple[Mask, NDArray[np.float64]]:
        narrowed, left, s = allowed.copy(), free.copy(), self.ar.site[a]
        narrowed[o] = False
        narrowed[o, a] = True
        for x, y in self.ar.apart:
            if o in (x, y):
                narrowed[x + y - o] &= self.ar.site != s
        if self.problem.constraints.cpu:
            left[s] -= self.ar.cpu[o]
            full = self.ar.site == s
            for other in range(len(narrowed)):
                if other != o and narrowed[other].sum() > 1:
                    narrowed[other] &= ~(full & (self.ar.cpu[other] > left[s] + 1e-9))
        return narrowed, left

    def _room(self, placed: dict[int, int], free: NDArray[np.float64]) -> bool:
        if not self.problem.constraints.cpu:
            return True
        need = sum(float(c) for o, c in enumerate(self.ar.cpu) if o not in placed)
        return bool((free >= -1e-9).all() and need <= free[free > 0].sum() + 1e-9)

    def _in_time(self, allowed: Mask) -> bool:
        return self.limit is None or np.isfinite(self.relaxation.bound(Domains.of(allowed), self.limit))


def _can(problem: Problem, parts: list[Constraints], clock: Deadline) -> PlanVector | None:
    """A plan under these demands alone; None if there is none."""
    part = replace(problem, constraints=Constraints.combine(parts))
    if any(len(c) == 0 for c in part.choices):
        return None
    return _Checker(part, clock).solve()


def feasible_plan(problem: Problem, clock: Deadline, *, patience: float = 5.0) -> PlanVector:
    """A plan that keeps every constraint; raises with the clash if there is none, or says that time ran out."""
    limit = Deadline(patience if clock.left() is None else max(clock.left() or 0.0, 0.02))
    parts = problem.constraints.parts()
    try:
        plan = _can(problem, [c for _, c in parts], limit)
    except _UndecidedError:
        msg = "no plan that keeps every constraint was found in time; give more time or relax a constraint"
        raise PlacementError(msg) from None
    if plan is not None:
        return plan
    words = " + ".join(w for w, _ in _clash(problem, parts, Deadline(patience)))
    msg = f"no plan can keep all constraints; these clash: {words}; relax one of them"
    raise PlacementError(msg)


def _clash(problem: Problem, parts: list[tuple[str, Constraints]], clock: Deadline) -> list[tuple[str, Constraints]]:
    """Leave out what is not needed for the contradiction; what time does not suffice to test stays in."""
    core = list(parts)
    for part in parts:
        rest = [p for p in core if p is not part]
        try:
            if _can(problem, [c for _, c in rest], clock) is None:
                core = rest
        except _UndecidedError:
            break
    return core
