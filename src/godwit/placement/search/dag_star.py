"""DAG* (Strevniotis et al., ICDE 2025), from its description: A* over partial plans for the lowest end-to-end latency.

Operators are placed producers first. A partial plan is rated by what it has spent plus an admissible estimate of
what must follow: the relaxed longest paths of `relax.py`. Of two partial plans that agree on the placement of all
operators whose consumers are still to come, only the one that is nowhere later goes on. The search knows latency
only; migration is added to its answer, as the paper does.
"""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np

from godwit.placement.kernels.cost import EPS, evaluate
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.proof.relax import Domains, Relaxation
from godwit.placement.search import greedy
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.limits import Deadline


class _Search:
    """The open list and what has been seen; `plan` is the best complete plan so far."""

    def __init__(self, problem: Problem, clock: Deadline) -> None:
        self.ar, self.clock = problem.arrays, clock
        relaxation = Relaxation(self.ar)
        relaxation.bound(Domains.of(np.isfinite(problem.latency)))
        #: from an operator's result to the end, at least
        runs = np.isfinite(problem.latency)
        self.after = np.full(runs.shape, math.inf)
        self.after[runs] = relaxation.tail[runs] - self.ar.latency[runs]
        self.topo = self.ar.topo.tolist()
        self.pred = [self.ar.pred[a:b].tolist() for a, b in itertools.pairwise(self.ar.pred_at)]
        last_use = [
            max([self.topo.index(w) for w in self.ar.succ[a:b]], default=-1)
            for a, b in itertools.pairwise(self.ar.succ_at)
        ]
        #: operators whose consumers are still to come once k operators are placed
        self.live = [[o for o in self.topo[:k] if last_use[o] >= k] for k in range(len(self.topo) + 1)]
        self.seen: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
        self.examined = 0
        self.plan, _, _ = greedy.climb(problem, np.array(problem.root, dtype=np.int64), clock)
        vector = np.empty(4)
        evaluate(self.ar, self.plan, vector)
        self.latency = float(vector[1])

    def run(self) -> bool:
        """True when the lowest latency is proven, False when time ran out."""
        order = itertools.count()
        heap: list[tuple[float, int, PlanVector, tuple[float, ...]]] = [(0.0, next(order), (), ())]
        while heap:
            estimate, _, placed, times = heapq.heappop(heap)
            if self.clock.over():
                return False
            if estimate >= self.latency - EPS:
                return True
            if len(placed) == len(self.topo):
                self._complete(placed, estimate)
                continue
            for f, child, child_times in self._expand(estimate, placed, times):
                heapq.heappush(heap, (f, next(order), child, child_times))
        return True

    def _complete(self, placed: PlanVector, latency: float) -> None:
        self.latency = latency
        for o, a in zip(self.topo, placed, strict=True):
            self.plan[o] = a

    def _expand(
        self, estimate: float, placed: PlanVector, times: tuple[float, ...]
    ) -> list[tuple[float, PlanVector, tuple[float, ...]]]:
        """All placements of the next operator that can still be part of a better plan."""
        k = len(placed)
        o, site = self.topo[k], self.ar.site
        arrive = np.zeros(self.ar.latency.shape[1])
        for u in self.pred[o]:
            i = self.topo.index(u)
            np.maximum(arrive, times[i] + self.ar.distance[site[placed[i]], site], out=arrive)
        ready = arrive + self.ar.latency[o]
        f = np.maximum(estimate, ready + self.after[o])
        self.examined += len(f)
        children = []
        for a in np.flatnonzero(f < self.latency - EPS):
            child, child_times = (*placed, int(a)), (*times, float(ready[a]))
            if self._is_new(k + 1, child, child_times):
                children.append((float(f[a]), child, child_times))
        return children

    def _is_new(self, k: int, child: PlanVector, times: tuple[float, ...]) -> bool:
        """False if a partial plan with the same live placements was nowhere later."""
        rank = [self.topo.index(o) for o in self.live[k]]
        key = (k, *(child[i] for i in rank))
        mine = tuple(times[i] for i in rank)
        others = self.seen.setdefault(key, [])
        if any(all(x <= y for x, y in zip(other, mine, strict=True)) for other in others):
            return False
        others.append(mine)
        return True


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    inner = _Search(problem, clock)
    complete = inner.run()
    note = f"lowest latency without migration: {inner.latency:.3f} ms" if complete else "time ran out before the proof"
    return finish(
        problem, options, clock, tuple(inner.plan.tolist()), examined=inner.examined, complete=complete, notes=(note,)
    )
