"""RSS: random sampling search (algorithm 6 of APEROL), uniform or along a Sobol sequence.

Samples are drawn among the allowed actions of each operator, so none is wasted on an operator that cannot run. Piece
k of a sample depends on the seed and k alone: any number of threads or Spark tasks sees the same plans. A sample
larger than the space is the space: then RSS counts it through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from godwit.placement.kernels.cost import evaluate_many
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.search import esc
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.executor import BestFound, ThreadExecutor
from godwit.placement.search.limits import Deadline

#: plans in a piece; a power of two keeps Sobol points balanced
PIECE = 1024


@dataclass(frozen=True)
class SamplePiece:
    """Piece `index` of a sample."""

    index: int
    count: int
    seed: int
    sampling: str = "sobol"
    #: where set, a sample moves at most `hops` operators away from this plan
    around: PlanVector | None = None
    hops: int = 3

    def run(self, problem: Problem) -> BestFound:
        """See `executor.Piece`."""
        plans = np.unique(self.draw(problem), axis=0)
        vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))
        evaluate_many(problem.arrays, plans, vectors, costs)
        first = int(np.argmin(costs))
        return BestFound(float(costs[first]), tuple(plans[first].tolist()), len(plans))

    def draw(self, problem: Problem) -> NDArray[np.int64]:
        """The plans of this piece, one per row."""
        points = self._points(len(problem.root))
        columns = [c[(points[:, o] * len(c)).astype(np.int64)] for o, c in enumerate(problem.choices)]
        plans = np.stack(columns, axis=1)
        return plans if self.around is None else self._near(plans)

    def _points(self, dimensions: int) -> NDArray[np.float64]:
        if self.sampling == "uniform":
            return np.random.default_rng([self.seed, self.index]).random((self.count, dimensions))
        sobol = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(self.seed))
        if self.index:
            sobol.fast_forward(self.index * PIECE)
        points: NDArray[np.float64] = sobol.random(PIECE)[: self.count]
        return np.minimum(points, math.nextafter(1.0, 0.0))

    def _near(self, plans: NDArray[np.int64]) -> NDArray[np.int64]:
        """Keep the drawn action for 1..hops operators, chosen at random; the others stay as in `around`."""
        random = np.random.default_rng([self.seed, self.index, 1])
        rank = random.random(plans.shape).argsort(axis=1).argsort(axis=1)
        moved = random.integers(1, self.hops + 1, size=(len(plans), 1))
        return np.where(rank < moved, plans, np.array(self.around, dtype=np.int64))


def pieces(options: Options, around: PlanVector | None = None) -> Iterator[SamplePiece]:
    """The sample in pieces."""
    for k, start in enumerate(range(0, options.samples, PIECE)):
        count = min(PIECE, options.samples - start)
        yield SamplePiece(k, count, options.seed, options.sampling, around, options.hops)


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    if options.samples >= esc.space(problem):
        return esc.search(problem, options)
    return sample(problem, options)


def sample(problem: Problem, options: Options, around: PlanVector | None = None) -> SearchResult:
    """Draw, evaluate, keep the best; around a plan where one is given."""
    clock = Deadline(options.seconds)
    best = (options.executor or ThreadExecutor(options.threads)).best(problem, pieces(options, around), clock)
    return finish(problem, options, clock, best.plan or problem.root, examined=best.examined, complete=best.complete)
