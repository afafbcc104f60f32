"""Latency mode, migration cap by migration cap: which caps may still hold a plan cheaper than the best one known.

The farthest move is a maximum, so the plans that beat a cost are found among those with moves of at most k, for some
k of the distinct move costs, and a latency below cost - k. `Caps.waiting` bounds every k; the list is empty exactly
when the cost is proven optimal.
"""

from __future__ import annotations

import math

import numpy as np

from godwit.placement.kernels.cost import EPS, Index
from godwit.placement.problem.problem import Problem
from godwit.placement.proof.relax import Domains, Relaxation


class Caps:
    """Bounds for one problem in latency mode."""

    def __init__(self, problem: Problem) -> None:
        self.relaxation = Relaxation(problem.arrays)
        self.allowed = np.isfinite(problem.latency)
        self.moves = np.floor(1000.0 * problem.arrays.migration)
        #: no plan with o on a has a lower latency; inf where it is above every cost of interest
        self.through = np.where(self.allowed, 0.0, math.inf)

    def candidates(self, cost: float) -> list[float]:
        """The caps that the latency without any cap does not rule out, ascending."""
        domains = Domains.of(self.allowed & (self.through < cost / 1000.0 + EPS))
        free = self.relaxation.bound(domains, cost / 1000.0) if domains.sizes.all() else math.inf
        if not math.isfinite(free):
            return []
        for o in range(len(self.allowed)):
            kept = domains.lists[o, : domains.sizes[o]].copy()
            values = self.relaxation.through[o, kept]
            self.through[o] = math.inf
            self.through[o, kept] = values
        # an operator must be somewhere: no cap below the least move that one of them has to make
        least = max(float(m[a].min()) for m, a in zip(self.moves, self.allowed, strict=True))
        caps = np.unique(self.moves[np.isfinite(self.through)])
        return [float(k) for k in caps[(caps >= least) & (caps + _micros(free) < cost)]]

    def waiting(self, cost: float) -> list[tuple[float, float]]:
        """(bound on the cost, cap) of the caps that may hold a plan cheaper than `cost`, best bound first."""
        caps = self.candidates(cost)
        return sorted(self._open(caps, cost)) if caps else []

    def _open(self, caps: list[float], cost: float) -> list[tuple[float, float]]:
        """Caps are closed in bulk: under the largest of them, with time left as under the smallest, nothing fits."""
        low, high = caps[0], caps[-1]
        domains = Domains.of((self.moves <= high) & (self.through < (cost - low) / 1000.0 + EPS))
        limit = (cost - low) / 1000.0
        bound = self.relaxation.bound(domains, limit) if domains.sizes.all() else math.inf
        if not math.isfinite(bound) or _micros(bound) + low >= cost:
            return []
        if len(caps) == 1:
            return [(_micros(bound) + low, low)]
        half = len(caps) // 2
        return self._open(caps[:half], cost) + self._open(caps[half:], cost)

    def domains(self, cap: float, cost: float) -> Domains:
        """The actions that a plan cheaper than `cost` with moves of at most `cap` can use."""
        return Domains.of((self.moves <= cap) & (self.through < (cost - cap) / 1000.0 + EPS))

    def plan(self, cap: float, cost: float) -> Index | None:
        """The plan the relaxation suggests under a cap; a good start, not always a good plan."""
        domains = self.domains(cap, cost)
        if not domains.sizes.all() or not math.isfinite(self.relaxation.bound(domains, (cost - cap) / 1000.0)):
            return None
        return self.relaxation.plan(domains)


def _micros(latency: float) -> float:
    return math.floor(1000.0 * (latency - EPS))
