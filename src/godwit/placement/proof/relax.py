"""The relaxation behind every latency proof: longest paths in which each edge may pick its producer's site afresh.

in_time[o, a]  >= no plan with o on a has o's result ready earlier through[o, a]  >= no plan with o on a has a lower
latency A producer with several consumers may be in several places at once here, so these are bounds; where no open
operator has more than one consumer they are exact. `propagate` also throws out the actions that cannot beat a limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from godwit.placement.kernels.cost import EPS, Arrays, Index, Matrix, Vector, kernel


@kernel
def sort_by(row: Index, count: int, time: Vector) -> None:
    """The first `count` actions of a row in the order of their times."""
    if count > 1:
        row[:count] = row[:count][np.argsort(time[row[:count]])]


@kernel
def nearest(
    tree: Index, up: Vector, site: Index, distance: Matrix, row: Index, count: int, time: Vector, out: Vector
) -> None:
    """out[s]: the least time[a] + distance to s over the listed actions. On a tree two sweeps, otherwise all pairs."""
    sites = out.shape[0]
    out[:] = np.inf
    for m in range(count):
        here = site[row[m]]
        out[here] = min(out[here], time[row[m]])
    if tree.shape[0] > 1:
        for k in range(sites - 1, 0, -1):
            s, parent = tree[k, 0], tree[k, 1]
            out[parent] = min(out[parent], out[s] + up[k])
        for k in range(1, sites):
            s, parent = tree[k, 0], tree[k, 1]
            out[s] = min(out[s], out[parent] + up[k])
        return
    for s in range(sites):
        best = out[s]
        for m in range(count):
            if time[row[m]] >= best:
                break  # the row is sorted: all that follow start later still
            best = min(best, time[row[m]] + distance[s, site[row[m]]])
        out[s] = best


@kernel
def earliest(ar: Arrays, lists: Index, sizes: Index, limit: float, in_time: Matrix, reach: Matrix) -> bool:
    """Fill in_time for the listed actions, dropping those over the limit; False if an operator has none left."""
    for k in range(ar.topo.shape[0]):
        o = ar.topo[k]
        kept = 0
        for i in range(sizes[o]):
            a = lists[o, i]
            latest = 0.0
            for j in range(ar.pred_at[o], ar.pred_at[o + 1]):
                latest = max(latest, reach[ar.pred[j], ar.site[a]])
            time = ar.latency[o, a] + latest
            if time < limit:
                in_time[o, a] = time
                lists[o, kept] = a
                kept += 1
        sizes[o] = kept
        if kept == 0:
            return False
        sort_by(lists[o], kept, in_time[o])
        nearest(ar.tree, ar.tree_up, ar.site, ar.distance, lists[o], kept, in_time[o], reach[o])
    return True


@kernel
def latest_start(
    ar: Arrays, lists: Index, sizes: Index, limit: float, in_time: Matrix, tail: Matrix, through: Matrix, reach: Matrix
) -> float:
    """Fill tail (o's start to the end) and through; drop what is over the limit. Returns the bound, inf if empty."""
    bound = 0.0
    for k in range(ar.topo.shape[0] - 1, -1, -1):
        o = ar.topo[k]
        kept, least = 0, np.inf
        for i in range(sizes[o]):
            a = lists[o, i]
            after = 0.0
            for j in range(ar.succ_at[o], ar.succ_at[o + 1]):
                after = max(after, reach[ar.succ[j], ar.site[a]])
            whole = in_time[o, a] + after
            if whole < limit:
                tail[o, a] = ar.latency[o, a] + after
                through[o, a] = whole
                least = min(least, whole)
                lists[o, kept] = a
                kept += 1
        sizes[o] = kept
        if kept == 0:
            return np.inf
        sort_by(lists[o], kept, tail[o])
        nearest(ar.tree, ar.tree_up, ar.site, ar.distance, lists[o], kept, tail[o], reach[o])
        bound = max(bound, least)
    return bound


@kernel
def propagate(
    ar: Arrays, lists: Index, sizes: Index, limit: float, in_time: Matrix, tail: Matrix, through: Matrix, reach: Matrix
) -> float:
    """Bounds for the listed actions, tightened while much drops out; inf if no plan can be under the limit."""
    bound = 0.0
    while True:
        before = sizes.sum()
        if not earliest(ar, lists, sizes, limit, in_time, reach):
            return np.inf
        bound = latest_start(ar, lists, sizes, limit, in_time, tail, through, reach)
        # another pass only where this one threw out a good part: the bound holds after any number of them
        if bound == np.inf or sizes.sum() > 0.75 * before:
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
        self._reach = np.empty((arrays.latency.shape[0], arrays.distance.shape[0]))

    def bound(self, domains: Domains, limit: float = np.inf) -> float:
        """A proven lower bound on the latency within the domains; narrows them to what may be under the limit."""
        reach = limit + EPS if np.isfinite(limit) else np.finfo(np.float64).max
        return float(
            propagate(
                self.arrays, domains.lists, domains.sizes, reach, self.in_time, self.tail, self.through, self._reach
            )
        )

    def plan(self, domains: Domains) -> Index:
        """The plan that follows the earliest times of the last `bound` call."""
        plan = np.empty(self.arrays.latency.shape[0], dtype=np.int64)
        extract(self.arrays, domains.lists, domains.sizes, self.in_time, plan)
        return plan
