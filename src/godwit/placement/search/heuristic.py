"""HEURISTIC (algorithm 4 of APEROL): grow a Pareto set from the root by single moves until none is left untried.

What is ours:
- members are expanded cheapest first instead of first come, in rounds of a fixed number, so the answer does not
  depend on the number of threads; a round expands in parallel against a snapshot of the front, then merges in order;
- in latency mode the set also starts from GREEDY's plan and from the plans that a relaxation suggests for some
  migration caps (`caps.py`), and when it has converged, from those for every cap that may still hold something cheaper:
  this gets it out of local optima that need two moves at once;
- in the weighted mode it also starts from GREEDY's plan and from the best plans that gather everything on one site;
- on small spaces the front is completed by counting through all plans, so that none is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels.cost import BROKEN, Index, Matrix, Vector, evaluate, evaluate_many
from godwit.placement.kernels.scan import good_moves
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.proof.caps import Caps
from godwit.placement.search import greedy
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.front import Front, whole_front
from godwit.placement.search.limits import Deadline

#: members expanded in a round; fixed, or the answer would depend on the number of threads
ROUND = 8
#: spaces up to this many plans get their whole front by counting
SMALL = 50_000
#: candidates one expansion may hand over
ROOM = 4096
#: seconds that each member costs when the front is handed over at the end: they are kept back from the time limit
HANDING_OVER = 4e-6
#: neighbours of a round below which threads cost more than they bring
WORTH_THREADS = 20_000


@dataclass
class _Found:
    """What one expansion hands over."""

    vectors: Matrix = field(default_factory=lambda: np.empty((ROOM, 4)))
    moves: Index = field(default_factory=lambda: np.empty((ROOM, 2), dtype=np.int64))
    costs: Vector = field(default_factory=lambda: np.empty(ROOM))
    count: int = 0


class Grower:
    """Expands a front; keeps count of the plans examined."""

    def __init__(self, problem: Problem, front: Front, clock: Deadline, pool: ThreadPoolExecutor | None) -> None:
        self.arrays, self.front, self.clock, self.examined = problem.arrays, front, clock, 0
        self.neighbours = sum(len(c) - 1 for c in problem.choices)
        self.pool = pool if ROUND * self.neighbours >= WORTH_THREADS else None
        self.found = [_Found() for _ in range(ROUND)]

    def grow(self, rounds: int | None = None) -> bool:
        """Expand until every member is expanded; False if time (or the number of rounds) ran out first."""
        while not self.clock.over(HANDING_OVER * self.front.size) and rounds != 0:
            rounds = None if rounds is None else rounds - 1
            parents = self.front.next_round(ROUND)
            if not len(parents):
                return True
            self._expand(parents, self.front.snapshot())
            for parent, f in zip(parents, self.found, strict=False):
                self.front.add_moves(parent, f.vectors, f.moves, f.costs, f.count)
        return False

    def _expand(self, parents: Index, known: Matrix) -> None:
        def one(i: int) -> None:
            f = self.found[i]
            f.count = (
                0 if self.clock.over() else good_moves(self.arrays, parents[i], known, f.vectors, f.moves, f.costs)
            )

        runner = map if self.pool is None else self.pool.map
        for _ in runner(one, range(len(parents))):
            self.examined += self.neighbours


def starting_front(problem: Problem, starts: Iterable[PlanVector]) -> Front:
    """A front with the plans to start from; an infeasible one is taken in too, or there were nothing to expand."""
    front = Front(len(problem.root))
    for plan in starts:
        offer(problem, front, np.array(plan, dtype=np.int64))
    return front


def offer(problem: Problem, front: Front, plan: NDArray[np.int64]) -> None:
    """Evaluate a plan and let it join if nothing beats it."""
    vector = np.empty(4)
    cost = evaluate(problem.arrays, plan, vector)
    front.add(plan, vector if cost < BROKEN else np.full(4, math.inf), cost)


def gathered(problem: Problem) -> Index:
    """The best few plans that put all they can on one site, cheapest first: moves one by one seldom lead there."""
    sites, root = problem.arrays.distance.shape[0], np.array(problem.root, dtype=np.int64)
    plans = np.tile(root, (sites, 1))
    for o, choices in enumerate(problem.choices):
        slow_first = choices[np.argsort(-problem.latency[o, choices], kind="stable")]
        plans[problem.arrays.site[slow_first], o] = slow_first
    vectors, costs = np.empty((sites, 4)), np.empty(sites)
    evaluate_many(problem.arrays, plans, vectors, costs)
    return np.asarray(plans[np.argsort(costs, kind="stable")[:ROUND]])


def suggest(problem: Problem, front: Front, caps: Caps, chosen: Iterable[float]) -> None:
    """Let the relaxation's plans for these migration caps join the front."""
    best = front.least()
    for cap in chosen:
        plan = caps.plan(cap, best)
        if plan is not None:
            offer(problem, front, plan)


def converge(problem: Problem, grower: Grower, clock: Deadline) -> bool:
    """Latency mode: grow from the relaxation's plans, then from those for every cap that may still hold a cheaper one.

    True when the growing came to its end, False when time ran out.
    """
    front, caps = grower.front, Caps(problem)
    offer(problem, front, greedy.climb(problem, np.array(problem.root, dtype=np.int64), clock)[0])
    if front.least() < BROKEN:
        suggest(problem, front, caps, _spread(caps.candidates(front.least())))
    while grower.grow():
        best = front.least()
        if not best < BROKEN:
            return True
        suggest(problem, front, caps, [cap for _, cap in caps.waiting(best)])
        if not grower.grow():
            return False
        if front.least() >= best:
            return True
    return False


def _spread(caps: list[float]) -> list[float]:
    """At most ROUND of them, evenly."""
    return caps if len(caps) <= ROUND else [caps[i * (len(caps) - 1) // (ROUND - 1)] for i in range(ROUND)]


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    front = starting_front(problem, [problem.root, *([options.start] if options.start else [])])
    if not problem.objective.is_latency:
        offer(problem, front, greedy.climb(problem, np.array(problem.root, dtype=np.int64), clock)[0])
        for together in gathered(problem):
            offer(problem, front, together)
    with ThreadPoolExecutor(options.threads) as pool:
        grower = Grower(problem, front, clock, pool if options.threads > 1 else None)
        complete = converge(problem, grower, clock) if problem.objective.is_latency else grower.grow()
    small = math.prod(len(c) for c in problem.choices) <= SMALL and not clock.over()
    if small:
        front = whole_front(problem)
    plan = tuple(front.plans[front.members()[0]].tolist()) if len(front.members()) else problem.root
    answer = finish(
        problem, options, clock, plan, examined=grower.examined, complete=complete, front=front.export(problem)
    )
    return replace(answer, front_complete=small)
