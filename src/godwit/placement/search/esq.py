"""ESQ: exhaustive search outwards from the root (algorithm 1 of APEROL): all plans one move away, then two, and so on.

The paper keeps a queue and a set of visited plans, which grow with the space. A plan h moves away is fixed by the h
operators it moves and their actions, so the levels of that breadth-first search can be counted through directly:
same levels, no duplicates, no queue, no set, constant memory. Run to the end it is the proof of its answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from godwit.placement.kernels.scan import enumerate_moves
from godwit.placement.problem.problem import Problem
from godwit.placement.problem.signature import split, to_plan
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.executor import BestFound, ThreadExecutor
from godwit.placement.search.limits import Deadline, Proof

#: plans in a piece: a few milliseconds
PIECE = 1 << 15


@dataclass(frozen=True)
class MovesPiece:
    """`count` consecutive ways to move exactly these operators away from the root."""

    operators: tuple[int, ...]
    start: int
    count: int

    def run(self, problem: Problem) -> BestFound:
        """See `executor.Piece`."""
        arrays = problem.arrays
        actions = arrays.latency.shape[1]
        digits = np.array(to_plan(self.start, actions - 1, len(self.operators)), dtype=np.int64)
        cost, plan = np.array([math.inf]), np.full(len(problem.root), actions, dtype=np.int64)
        enumerate_moves(
            arrays,
            np.array(problem.root, dtype=np.int64),
            np.array(self.operators, dtype=np.int64),
            digits,
            self.count,
            cost,
            plan,
        )
        found = tuple(plan.tolist()) if math.isfinite(cost[0]) else ()
        return BestFound(float(cost[0]), found, self.count)


def pieces(problem: Problem) -> Iterator[MovesPiece]:
    """Level by level: some operators and a range of their digits (base |A| - 1: the root's action is out)."""
    others = len(problem.network.actions) - 1
    for moved in range(1, len(problem.root) + 1):
        for operators in combinations(range(len(problem.root)), moved):
            for start, count in split(0, others**moved, PIECE):
                yield MovesPiece(operators, start, count)


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    best = (options.executor or ThreadExecutor(options.threads)).best(problem, pieces(problem), clock)
    examined = best.examined + 1  # the root
    plan = best.plan or problem.root
    cost = min(best.cost, problem.evaluate(problem.root).cost)
    proof = Proof(cost, f"all {examined:,} plans were examined", optimal=True) if best.complete else None
    return finish(problem, options, clock, plan, examined=examined, complete=best.complete, proof=proof)
