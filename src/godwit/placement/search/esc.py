"""ESC: exhaustive search with counting (algorithm 3 of APEROL). Counts through all signatures, batch by batch.

No queue, no visited set, no collisions; a batch aggregates on its own. With a time limit it covers the first
signatures only (`rand_esc.py` shuffles the batches). Run to the end it is the proof of its answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from godwit.placement.problem.problem import Problem
from godwit.placement.problem.signature import split
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.executor import RangePiece, ThreadExecutor
from godwit.placement.search.limits import Deadline, Proof

#: plans in a batch by default: one or two milliseconds
BATCH = 1 << 16


def batch_size(problem: Problem, options: Options) -> int:
    """Whole cubes of digits where that is possible: the kernel is fastest on those."""
    if options.batch is not None:
        return options.batch
    actions, cube = len(problem.network.actions), 1
    while actions > 1 and cube * actions <= BATCH:
        cube *= actions
    return cube * max(1, BATCH // cube)


def space(problem: Problem) -> int:
    """|A|^|V|: how many signatures there are."""
    return int(len(problem.network.actions) ** len(problem.workflow.operators))


def pieces(problem: Problem, options: Options) -> Iterator[RangePiece]:
    """All signatures in order."""
    for start, count in split(0, space(problem), batch_size(problem, options)):
        yield RangePiece(start, count)


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    return run(problem, options, pieces(problem, options))


def run(problem: Problem, options: Options, todo: Iterator[RangePiece]) -> SearchResult:
    """Hand the pieces to the executor; a complete count proves the optimum."""
    clock = Deadline(options.seconds)
    best = (options.executor or ThreadExecutor(options.threads)).best(problem, todo, clock)
    proof = Proof(best.cost, f"all {best.examined:,} plans were examined", optimal=True) if best.complete else None
    return finish(
        problem, options, clock, best.plan or problem.root, examined=best.examined, complete=best.complete, proof=proof
    )
