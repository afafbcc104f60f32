"""HEURISTIC (algorithm 4 of APEROL): grow a Pareto set from the root by single moves, until no member has an untried one.

What is ours: members are expanded cheapest first instead of first come, in rounds of a fixed number, so the answer does not
depend on the number of threads; a round expands in parallel against a snapshot of the front, then merges in order.
On small spaces the front is completed by counting through all plans, so that none is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from godwit.placement.base import Answer, Clock, Options, finish
from godwit.placement.front import Front, whole_front
from godwit.placement.kernels import BROKEN, evaluate
from godwit.placement.problem import PlanVector, Problem
from godwit.placement.scan import good_moves

#: members expanded in a round; fixed, or the answer would depend on the number of threads
ROUND = 8
#: spaces up to this many plans get their whole front by counting
SMALL = 50_000
#: candidates one expansion may hand over
ROOM = 4096


@dataclass
class _Buffers:
    """Scratch for one expansion."""

    vectors: NDArray[np.float64]
    moves: NDArray[np.int64]
    costs: NDArray[np.float64]
    found: int = 0

    @staticmethod
    def make() -> _Buffers:
        return _Buffers(np.empty((ROOM, 4)), np.empty((ROOM, 2), dtype=np.int64), np.empty(ROOM))


def grow(problem: Problem, front: Front, clock: Clock, threads: int) -> tuple[int, bool]:
    """Expand until every member is expanded; returns plans examined and whether that point was reached."""
    arrays, examined = problem.arrays, 0
    neighbours = sum(len(c) - 1 for c in problem.choices)
    buffers = [_Buffers.make() for _ in range(ROUND)]

    with ThreadPoolExecutor(threads) as pool:
        while not clock.over():
            parents = front.next_round(ROUND)
            if not len(parents):
                return examined, True
            known = front.snapshot()

            def one(i: int, parents: NDArray[np.int64] = parents, known: NDArray[np.float64] = known) -> None:
                b = buffers[i]
                b.found = 0 if clock.over() else good_moves(arrays, parents[i], known, b.vectors, b.moves, b.costs)

            _run(pool, threads, one, len(parents))
            examined += neighbours * len(parents)
            _merge(front, parents, buffers)
    return examined, False


def _run(pool: ThreadPoolExecutor, threads: int, one: object, count: int) -> None:
    assert callable(one)
    done: Iterable[None] = map(one, range(count)) if threads == 1 else pool.map(one, range(count))
    for _ in done:
        pass


def _merge(front: Front, parents: NDArray[np.int64], buffers: list[_Buffers]) -> None:
    for parent, b in zip(parents, buffers, strict=False):
        for k in np.argsort(b.costs[: b.found], kind="stable"):
            child = parent.copy()
            child[b.moves[k, 0]] = b.moves[k, 1]
            front.add(child, b.vectors[k], float(b.costs[k]))


def starting_front(problem: Problem, starts: Iterable[PlanVector]) -> Front:
    """A front with the plans to start from; an infeasible start is taken in too, or there would be nothing to expand."""
    front = Front(len(problem.root))
    for plan in starts:
        vector = np.empty(4)
        cost = evaluate(problem.arrays, np.array(plan), vector)
        front.add(np.array(plan), vector if cost < BROKEN else np.full(4, math.inf), cost)
    return front


def search(problem: Problem, options: Options) -> Answer:
    """See `base.Search`."""
    clock = Clock(options.seconds)
    front = starting_front(problem, [problem.root, *([options.start] if options.start else [])])
    examined, complete = grow(problem, front, clock, options.threads)
    small = math.prod(len(c) for c in problem.choices) <= SMALL and not clock.over()
    if small:
        front = whole_front(problem)
    members = front.members()
    best = members[np.lexsort((members, front.costs[members]))[0]]
    plan = tuple(front.plans[best].tolist())
    answer = finish(problem, options, clock, plan, examined=examined, complete=complete, front=front.export(problem))
    return replace(answer, front_complete=small)
