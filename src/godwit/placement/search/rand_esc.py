"""Rand-ESC: ESC with its batches in random order (section 4.3 of APEROL), so that a time limit cuts no corner off."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.placement.problem.problem import Problem
from godwit.placement.problem.signature import shuffled
from godwit.placement.search import esc
from godwit.placement.search.base import Options, SearchResult
from godwit.placement.search.executor import RangePiece


def pieces(problem: Problem, options: Options) -> Iterator[RangePiece]:
    """All signatures, batches shuffled. Batches are small by default: diversity is the point."""
    total, actions = esc.space(problem), len(problem.network.actions)
    size = options.batch or min(esc.batch_size(problem, options), max(actions, 1024))
    batches = -(-total // size)
    for k in shuffled(batches, options.seed):
        yield RangePiece(k * size, min(size, total - k * size))


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    return esc.run(problem, options, pieces(problem, options))
