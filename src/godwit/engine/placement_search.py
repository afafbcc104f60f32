"""ESC, ESQ and RSS over a Spark cluster: the same pieces, run by tasks instead of threads.

Pieces go out in waves. A wave is sized so that its work dwarfs the 50-80 ms a job costs, and a task stops taking
pieces when the time limit has passed, so a search overruns by about one job, not by one wave. The answer is the one
that threads would give.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import islice

from pyspark.sql import SparkSession

from godwit.placement.problem.problem import Problem
from godwit.placement.search.executor import BestFound, Piece
from godwit.placement.search.limits import Deadline

#: seconds of work a wave should hold
WAVE_SECONDS = 1.0
LARGEST_WAVE = 1 << 16


class SparkExecutor:
    """A `SearchExecutor` on a Spark session; give it to `Options.executor`."""

    def __init__(self, spark: SparkSession, tasks: int | None = None) -> None:
        self._context = spark.sparkContext
        #: tasks a wave is split into
        self.tasks = tasks or self._context.defaultParallelism

    def best(self, problem: Problem, pieces: Iterable[Piece], clock: Deadline) -> BestFound:
        """See `SearchExecutor`."""
        shared, todo, total = self._context.broadcast(problem), iter(pieces), BestFound()
        size = self.tasks
        while True:
            wave = list(islice(todo, size))
            if not wave:
                break
            if clock.over():
                total = total.join(BestFound(complete=False))
                break
            left, started = clock.left(), time.perf_counter()
            until = None if left is None else time.time() + left

            def work(share: Iterable[Piece], until: float | None = until) -> Iterator[BestFound]:
                yield _run_share(shared.value, share, until)

            found = self._context.parallelize(wave, self.tasks).mapPartitions(work).collect()
            total = reduce(BestFound.join, found, total)
            if time.perf_counter() - started < WAVE_SECONDS:
                size = min(2 * size, LARGEST_WAVE)
        shared.unpersist()
        return total


def _run_share(problem: Problem, share: Iterable[Piece], until: float | None) -> BestFound:
    """One task: its pieces, until time is up."""
    total = BestFound()
    for piece in share:
        if until is not None and time.time() >= until:
            return total.join(BestFound(complete=False))
        total = total.join(piece.run(problem))
    return total
