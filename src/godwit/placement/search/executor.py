"""Run pieces of a search side by side: pieces in, best plan out.

A piece is a small picklable value that can find its best plan alone; which thread (or which Spark task) runs it does
not change the outcome, because results are compared by (cost, plan). `runtime.spark_search` has the Spark executor.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.problem.signature import to_plan
from godwit.placement.search.limits import Deadline


@dataclass(frozen=True)
class BestFound:
    """The cheapest plan of some pieces, how many plans they held, and whether all pieces ran."""

    cost: float = math.inf
    plan: PlanVector = ()
    examined: int = 0
    complete: bool = True

    def join(self, other: BestFound) -> BestFound:
        """The better of two, counts added; ties go to the smaller plan, so the order of joining does not matter."""
        first = self if (self.cost, self.plan or (math.inf,)) <= (other.cost, other.plan or (math.inf,)) else other
        return BestFound(first.cost, first.plan, self.examined + other.examined, self.complete and other.complete)


class Piece(Protocol):
    """A share of the work."""

    def run(self, problem: Problem) -> BestFound:
        """Look at every plan of this piece. Should take a few milliseconds: time limits are kept between pieces."""


class SearchExecutor(Protocol):
    """Where pieces run."""

    def best(self, problem: Problem, pieces: Iterable[Piece], clock: Deadline) -> BestFound:
        """The best plan over all pieces that could start before the clock ran out."""


@dataclass(frozen=True)
class RangePiece:
    """`count` consecutive signatures."""

    start: int
    count: int

    def run(self, problem: Problem) -> BestFound:
        """See `Piece`."""
        from godwit.placement.kernels import scan

        arrays = problem.arrays
        operators, actions = arrays.latency.shape
        first = np.array(to_plan(self.start, actions, operators), dtype=np.int64)
        cost, plan = np.array([math.inf]), np.full(operators, actions, dtype=np.int64)
        scan.enumerate_range(arrays, first, self.count, cost, plan)
        found = tuple(plan.tolist()) if math.isfinite(cost[0]) else ()
        return BestFound(float(cost[0]), found, self.count)


@dataclass(frozen=True)
class ThreadExecutor:
    """Threads of this process. The kernels hold no GIL; the only lock guards handing out the next piece."""

    threads: int = 1

    def best(self, problem: Problem, pieces: Iterable[Piece], clock: Deadline) -> BestFound:
        """See `SearchExecutor`."""
        todo, lock = iter(pieces), threading.Lock()
        _ = problem.arrays  # built once, before the threads race for it
        if self.threads == 1:
            return _drain(problem, todo, lock, clock)
        with ThreadPoolExecutor(self.threads) as pool:
            shares = [pool.submit(_drain, problem, todo, lock, clock) for _ in range(self.threads)]
        total = BestFound()
        for share in shares:
            total = total.join(share.result())
        return total


def _drain(problem: Problem, todo: Iterator[Piece], lock: threading.Lock, clock: Deadline) -> BestFound:
    total = BestFound()
    while True:
        with lock:
            piece = next(todo, None)
        if piece is None:
            return total
        if clock.over():
            return total.join(BestFound(complete=False))
        total = total.join(piece.run(problem))
