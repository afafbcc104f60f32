"""The relaxation behind every latency proof: longest paths in which each edge may pick its producer's site anew.

in_time[o, a]  >= no plan with o on a has o's result ready earlier through[o, a]  >= no plan with o on a has a lower
latency A producer with several consumers may be in several places at once here, so these are bounds; where no open
operator has more than one consumer they are exact. `propagate` also throws out the actions that cannot beat a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from godwit.placement.kernels import EPS, Arrays, Index, Matrix, Vector, kernel


@kernel
def sort_by(row: Index, count: int, time: Vector) -> None:
    """The first `count` actions of a row in the order of their times."""
    if count > 1:
        row[:count] = row[:count][np.argsort(time[row[:count]])]


@kernel
def earliest(
    topo: Index,
    pred_at: Index,
    pred: Index,
    site: Index,
    latency: Matrix,
    distance: Matrix,
    lists: Index,
    sizes: Index,
    limit: float,
    in_time: Matrix,
) -> bool:
    """Fill in_time for the listed actions, dropping those over the limit; False if an operator has none left."""
    for k in range(topo.shape[0]):
        o = topo[k]
        kept = 0
        for i in range(sizes[o]):
            a = lists[o, i]
            near = distance[site[a]]
            latest = 0.0
            for j in range(pred_at[o], pred_at[o + 1]):
                u = pred[j]
                best = np.inf
                for m in range(sizes[u]):
                    b = lists[u, m]
                    if in_time[u, b] >= best:
                        break  # lists are sorted: all that follow start later still
                    best = min(best, in_time[u, b] + near[site[b]])
                latest = max(latest, best)
            time = latency[o, a] + latest
            if time < limit:
                in_time[o, a] = time
                lists[o, kept] = a
                kept += 1
        sizes[o] = kept
        if kept == 0:
            return False
        sort_by(lists[o], kept, in_time[o])
    return True


@kernel
def latest_start(
    topo: Index,
    succ_at: Index,
    succ: Index,
    site: Index,
    latency: Matrix,
    distance: Matrix,
    lists: Index,
    sizes: Index,
    limit: float,
    in_time: Matrix,
    tail: Matrix,
    through: Matrix,
) -> float:
    """Fill tail (o's start to the end) and through; drop what is over the limit. Returns the bound, inf if empty."""
    bound = 0.0
    for k in range(topo.shape[0] - 1, -1, -1):
        o = topo[k]
        kept, least = 0, np.inf
        for i in range(sizes[o]):
            a = lists[o, i]
            near = distance[site[a]]
            after = 0.0
            for j in range(succ_at[o], succ_at[o + 1]):
                w = succ[j]
                best = np.inf
                for m in range(sizes[w]):
                    b = lists[w, m]
                    if tail[w, b] >= best:
                        break
                    best = min(best, tail[w, b] + near[site[b]])
                after = max(after, best)
            whole = in_time[o, a] + after
            if whole < limit:
                tail[o, a] = latency[o, a] + after
                through[o, a] = whole
                least = min(least, whole)
                lists[o, kept] = a
                kept += 1
        sizes[o] = kept
        if kept == 0:
            return np.inf
        sort_by(lists[o], kept, tail[o])
        bound = max(bound, least)
    return bound


@kernel
def propagate(
    ar: Arrays, lists: Index, sizes: Index, limit: float, in_time: Matrix, tail: Matrix, through: Matrix
) -> float:
    """Bounds for the listed actions, tightened until nothing more drops out; inf if no plan can be under the limit."""
    bound = 0.0
    while True:
        before = sizes.sum()
        if not earliest(ar.topo, ar.pred_at, ar.pred, ar.site, ar.latency, ar.distance, lists, sizes, limit, in_time):
            return np.inf
        bound = latest_start(
            ar.topo, ar.succ_at, ar.succ, ar.site, ar.latency, ar.distance, lists, sizes, limit, in_time, tail, through
        )
        if bound == np.inf or sizes.sum() == before:
            return bound


@kernel
def extract(ar: Arrays, lists: Index, sizes: Index, in_time: Matrix, plan: Index) -> None:
    """A plan along the earliest times, consumers first; where consumers disagree the latest-bound one decides."""
    n = plan.shape[0]
    plan[:] = -1
    for k in range(n - 1, -1, -1):
        o = ar.topo[k]
        best = np.inf
        for i in range(sizes[o]):
            a = lists[o, i]
            worst = in_time[o, a]
            for j in range(ar.succ_at[o], ar.succ_at[o + 1]):
                w = plan[ar.succ[j]]
                reach = in_time[o, a] + ar.distance[ar.site[a], ar.site[w]]
                worst = max(worst, reach)
            if worst < best:
                best = worst
                plan[o] = a


@dataclass
class Domains:
    """The actions still open for each operator."""

    lists: Index
    sizes: Index

    def copy(self) -> Domains:
        """A separate value to narrow."""
        return Domains(self.lists.copy(), self.sizes.copy())

    def fix(self, operator: int, action: int) -> Domains:
        """The same with one operator decided."""
        fixed = self.copy()
        fixed.lists[operator, 0] = action
        fixed.sizes[operator] = 1
        return fixed

    @staticmethod
    def of(allowed: np.ndarray) -> Domains:
        """From an operators x actions mask."""
        lists = np.zeros(allowed.shape, dtype=np.int64)
        sizes = allowed.sum(axis=1).astype(np.int64)
        for o, row in enumerate(allowed):
            lists[o, : sizes[o]] = np.flatnonzero(row)
        return Domains(lists, sizes)


class Relaxation:
    """Scratch space and the bound for one problem."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.in_time, self.tail, self.through = (np.empty(arrays.latency.shape) for _ in range(3))

    def bound(self, domains: Domains, limit: float = np.inf) -> float:
        """A proven lower bound on the latency within the domains; narrows them to what may be under the limit."""
        reach = limit + EPS if np.isfinite(limit) else np.finfo(np.float64).max
        return float(propagate(self.arrays, domains.lists, domains.sizes, reach, self.in_time, self.tail, self.through))

    def plan(self, domains: Domains) -> Index:
        """The plan that follows the earliest times of the last `bound` call."""
        plan = np.empty(self.arrays.latency.shape[0], dtype=np.int64)
        extract(self.arrays, domains.lists, domains.sizes, self.in_time, plan)
        return plan


def reach_of(in_time: Matrix, domains: Domains, operator: int) -> Vector:
    """The open actions' times, for ordering branches."""
    return np.asarray(in_time[operator, domains.lists[operator, : domains.sizes[operator]]])
