"""auto: pick and chain searches by instance and time budget, and say how good the answer is.

Small spaces are counted through (optimum proven). In latency mode GREEDY, HEURISTIC and the proof follow each other.
In the weighted mode: HEURISTIC from the root with 70 % of the time, then the evolutionary search and samples around
the best plan in turns, each from the best plan so far, until time is up, nothing gets better or the bound is reached.
Without a time limit a default is set for the weighted mode.
"""

from __future__ import annotations

from dataclasses import replace

from godwit.placement.problem.problem import Problem
from godwit.placement.proof import bounds
from godwit.placement.search import esc, evolutionary, greedy, heuristic, optimum, rss
from godwit.placement.search.base import Options, SearchResult
from godwit.placement.search.limits import Deadline

#: plans a thread counts through in a second, cautiously
RATE = 5_000_000
#: seconds for the weighted mode without a limit
DEFAULT_SECONDS = 2.0
#: share of the time kept back for the bound
FOR_BOUND = 0.1
#: turns without a better plan after which a finished search is left alone
PATIENCE = 2


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock = Deadline(options.seconds)
    seconds = options.seconds or DEFAULT_SECONDS
    if esc.space(problem) <= RATE * options.threads * min(seconds, 1.0) / 2:
        answer = replace(esc.search(problem, options), notes=("small space: counted through with ESC",))
        front = heuristic.search(problem, options) if not clock.over() else answer
        return replace(answer, front=front.front, front_complete=front.front_complete, seconds=clock.spent())
    if problem.objective.is_latency:
        return _latency(problem, options, clock)
    return _weighted(problem, replace(options, seconds=seconds), Deadline(seconds))


def _latency(problem: Problem, options: Options, clock: Deadline) -> SearchResult:
    first = greedy.search(problem, options)
    share = None if options.seconds is None else max(1e-6, 0.6 * options.seconds - clock.spent())
    second = heuristic.search(problem, replace(options, seconds=share, start=first.plan))
    answer = optimum.prove(problem, options, second.plan, clock, examined=first.examined + second.examined)
    return replace(answer, front=second.front, notes=("GREEDY, then HEURISTIC, then proof by migration caps",))


def _weighted(problem: Problem, options: Options, clock: Deadline) -> SearchResult:
    assert options.seconds is not None
    search_until = Deadline(options.seconds * (1 - FOR_BOUND))
    best = heuristic.search(problem, replace(options, seconds=0.7 * options.seconds))
    examined, front, settled, turn, idle = best.examined, best.front, best.complete, 0, 0
    proof = bounds.weighted_bound(
        problem, best.cost, Deadline(max(0.25 * (search_until.left() or 0.0), 1e-3)), steps=50
    )
    while not proof.optimal and not search_until.over() and not (settled and idle >= PATIENCE):
        left = max(search_until.left() or 0.0, 1e-6)
        step = replace(options, seconds=left, start=best.plan, seed=options.seed + turn)
        found = evolutionary.search(problem, step) if turn % 2 == 0 else rss.sample(problem, step, around=best.plan)
        examined, turn, idle = examined + found.examined, turn + 1, idle + 1
        if found.cost < best.cost:
            best, idle = found, 0
    if not proof.optimal:
        last = bounds.weighted_bound(problem, best.cost, clock)
        proof = last if last.bound >= proof.bound else proof
    note = f"HEURISTIC, then {turn} turns of evolutionary search and samples around the best plan"
    return replace(
        best,
        algorithm=options.name,
        examined=examined,
        complete=settled,
        front=front,
        proof=proof,
        seconds=clock.spent(),
        notes=(note,),
    )
