"""GOVERNOR (Chaudhary et al., EDBT 2020), from its description: policies place operators along the way to the sink.

The sink stays where it is deployed. For each source the network path to the sink is known; an operator goes on a
site of the path of its producers, never back towards the source, subject to what the site can run and has room for.
A policy says where on the path: as near to the sources as possible (edge first), as near to the sink (cloud first),
or where the operator is quickest. All three are tried and the cheapest plan wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.limits import Deadline

#: a policy picks the position on the path, given the time of each candidate there
Policy = Callable[[list[float]], int]


def _edge_first(times: list[float]) -> int:
    return 0


def _cloud_first(times: list[float]) -> int:
    return len(times) - 1


def _quickest(times: list[float]) -> int:
    return min(range(len(times)), key=times.__getitem__)


POLICIES: tuple[Policy, ...] = (_edge_first, _cloud_first, _quickest)


def _quickest_at(problem: Problem, o: int) -> NDArray[np.int64]:
    """For each site the operator's quickest action there, -1 where it cannot run."""
    choices = problem.choices[o]
    slow_first = choices[np.argsort(-problem.latency[o, choices], kind="stable")]
    table = np.full(len(problem.network.sites), -1, dtype=np.int64)
    table[problem.arrays.site[slow_first]] = slow_first
    return table


class _Placer:
    """One pass of one policy."""

    def __init__(self, problem: Problem, policy: Policy) -> None:
        self.problem, self.policy = problem, policy
        self.before = problem.network.paths.before
        self.plan: dict[int, int] = {}
        limits = problem.constraints
        self.quickest = [_quickest_at(problem, o) for o in range(len(problem.root))]
        self.room = {i: s.cpu if limits.cpu else math.inf for i, s in enumerate(problem.network.sites)}

    def path(self, start: int, end: int) -> list[int]:
        """Sites from start to end along the network."""
        way = [end]
        while way[-1] != start:
            way.append(int(self.before[start, way[-1]]))
        return way[::-1]

    def place(self) -> PlanVector:
        """Producers first; a merge of several paths starts where all producers' paths to the sink have met."""
        graph, site = self.problem.workflow.graph, self.problem.arrays.site
        sinks = [o for o in graph if graph.out_degree(o) == 0]
        end = int(site[self.problem.root[sinks[0]]])
        for o in self.problem.workflow.topological:
            producers = [int(site[self.plan[u]]) for u in graph.predecessors(o)]
            starts = producers or [int(site[self.problem.root[o]])]
            ways = [self.path(s, end) for s in starts]
            common = [s for s in ways[0] if all(s in way for way in ways)]
            # a source stays with its device where that can run it; a sink stays where it is
            first_choice = common[:1] if not producers else common[-1:] if o in sinks else common
            found = self._pick(o, first_choice)
            found = self._pick(o, common) if found is None else found
            self.plan[o] = self._anywhere(o, end) if found is None else found
        return tuple(a for _, a in sorted(self.plan.items()))

    def _pick(self, o: int, sites: list[int]) -> int | None:
        """An action on one of the sites, by policy; None if none fits."""
        site, need = self.problem.arrays.site, self.problem.workflow.operators[o].cpu
        fits = []
        for s in sites:
            action = self.quickest[o][s]
            if action >= 0 and self.room[s] >= need:
                fits.append(int(action))
        if not fits:
            return None
        chosen = fits[self.policy([float(self.problem.latency[o, a]) for a in fits])]
        self.room[int(site[chosen])] -= need
        return chosen

    def _anywhere(self, o: int, end: int) -> int:
        """No site of the path fits: the nearest to the sink that can run it."""
        choices = self.problem.choices[o]
        away = self.problem.network.paths.distance[end, self.problem.arrays.site[choices]]
        return int(choices[np.argmin(away)])


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    plans = []
    for policy in POLICIES:
        plans.append(_Placer(problem, policy).place())
        if clock.over():
            break
    best = min(plans, key=lambda p: (problem.evaluate(p).cost, p))
    return finish(problem, options, clock, best, examined=len(plans), complete=len(plans) == len(POLICIES))
