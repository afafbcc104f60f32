"""GREEDY+RSS and HEURISTIC+RSS (section 4.3 of APEROL): a first search, then samples a few moves around its plan."""

from __future__ import annotations

from dataclasses import replace

from godwit.placement.problem.problem import Problem
from godwit.placement.search import greedy, heuristic, rss
from godwit.placement.search.base import Options, SearchResult
from godwit.placement.search.limits import Deadline


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`; the first search gets half of the time at most."""
    clock = Deadline(options.seconds)
    half = None if options.seconds is None else options.seconds / 2
    first_search = greedy.search if options.name.startswith("greedy") else heuristic.search
    first = first_search(problem, replace(options, seconds=half))
    rest = replace(options, seconds=_rest(clock), start=first.plan)
    second = rss.sample(problem, rest, around=first.plan)
    return replace(
        second,
        examined=first.examined + second.examined,
        seconds=clock.spent(),
        front=first.front,
        front_complete=first.front_complete,
        complete=first.complete and second.complete,
    )


def _rest(clock: Deadline) -> float | None:
    left = clock.left()
    return None if left is None else max(left, 1e-6)
