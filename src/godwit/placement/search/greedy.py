"""GREEDY (algorithm 5 of APEROL): in each round the single best move of an operator not yet moved, until none is left.

Ties go to the first operator by name, then the first action. One thread: at 2,047 sites it takes milliseconds, and
the paper too found that more threads only slow it down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels.scan import best_move
from godwit.placement.problem.problem import Problem
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.limits import Deadline


def climb(problem: Problem, start: NDArray[np.int64], clock: Deadline) -> tuple[NDArray[np.int64], int, bool]:
    """The greedy plan from `start`, plans examined, and whether every operator had its round."""
    arrays, plan = problem.arrays, start.copy()
    free = np.ones(len(plan), dtype=np.bool_)
    examined = 0
    while free.any():
        if clock.over():
            return plan, examined, False
        operator, action = best_move(arrays, plan, free)
        examined += int(free.sum()) * arrays.latency.shape[1]
        if operator < 0:  # an operator cannot run where it is, and no single move helps: give the first a place
            operator = int(np.flatnonzero(free)[0])
            action = int(problem.choices[operator][np.argmin(arrays.latency[operator, problem.choices[operator]])])
        plan[operator] = action
        free[operator] = False
    return plan, examined, True


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    plan, examined, complete = climb(problem, np.array(options.start or problem.root, dtype=np.int64), clock)
    return finish(problem, options, clock, tuple(plan.tolist()), examined=examined, complete=complete)
