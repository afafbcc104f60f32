"""What every search takes and gives back.

A search is a function `search(problem, options) -> SearchResult` in a module of its own; `names.py` says where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from godwit.errors import ConfigError, PlacementError
from godwit.placement.problem.problem import Evaluation, PlanVector, Problem
from godwit.placement.search.limits import Deadline, Proof
from godwit.placement.search.names import SEARCHES

if TYPE_CHECKING:
    from godwit.placement.search.executor import SearchExecutor


@dataclass(frozen=True)
class Options:
    """Knobs common to all searches; each reads those that concern it."""

    name: str = "auto"
    #: time limit in seconds; None: run to the end
    seconds: float | None = None
    threads: int = 1
    seed: int = 0
    #: RSS: plans to draw; evolutionary: offspring to try
    samples: int = 3000
    #: RSS: "sobol" or "uniform"
    sampling: str = "sobol"
    #: hybrids: how many operators a sample may move away from the first search's plan
    hops: int = 3
    #: ESC: signatures in a batch; None: sized so that a batch takes a few milliseconds
    batch: int | None = None
    #: where ESC and RSS run; None: threads of this process
    executor: SearchExecutor | None = field(default=None, compare=False)
    #: a plan to start from beside the root (used by chained searches)
    start: PlanVector | None = None

    def __post_init__(self) -> None:
        for what, value, least in (("threads", self.threads, 1), ("samples", self.samples, 1), ("hops", self.hops, 1)):
            if value < least:
                msg = f"{what} is {value}; it must be at least {least}"
                raise ConfigError(msg)
        if self.seconds is not None and not self.seconds > 0:
            msg = f"the time limit is {self.seconds} s; it must be more than 0"
            raise ConfigError(msg)
        if self.sampling not in ("sobol", "uniform"):
            msg = f"sampling {self.sampling!r} is unknown; use sobol or uniform"
            raise ConfigError(msg)
        if self.batch is not None and self.batch < 1:
            msg = f"the batch is {self.batch} plans; it must be at least 1"
            raise ConfigError(msg)


@dataclass(frozen=True)
class FrontPlan:
    """A plan no other plan seen beats in all four dimensions."""

    plan: PlanVector
    evaluation: Evaluation


@dataclass(frozen=True)
class SearchResult:
    """The best plan a search found, and what is known about it."""

    algorithm: str
    plan: PlanVector
    cost: float
    examined: int
    seconds: float
    #: False: the time limit cut the search short
    complete: bool
    front: tuple[FrontPlan, ...] = ()
    #: True: the front is the whole Pareto front, not only what was seen
    front_complete: bool = False
    proof: Proof | None = None
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """Proven distance to the optimum, relative to the cost; None where nothing is proven."""
        if self.proof is None:
            return None
        if self.proof.optimal or self.cost <= self.proof.bound + 1e-9:
            return 0.0
        return (self.cost - self.proof.bound) / abs(self.cost)


Search = Callable[[Problem, Options], SearchResult]


def find(name: str) -> Search:
    """The search of that name."""
    if name not in SEARCHES:
        msg = f"there is no placement search {name!r}; choose one of {', '.join(SEARCHES)}"
        raise ConfigError(msg)
    found: Search = import_module(f"godwit.placement.search.{SEARCHES[name]}").search
    return found


@cache
def prepare(name: str) -> float:
    """Load or compile what a search needs by running it on a toy, once per process; returns the seconds that took.

    Compiling happens once a machine (numba keeps the machine code on disk). It is done here, before the clock of a
    search starts, so that time limits hold on the first call too.
    """
    from godwit.placement.problem.toy import toy_problems

    clock = Deadline()
    for problem in toy_problems():
        find(name)(problem, Options(name, samples=8, seconds=None if name != "auto" else 0.2))
    return clock.spent()


def search(problem: Problem, options: Options | None = None) -> SearchResult:
    """Run the named search; a plan that breaks a hard constraint never leaves here."""
    options = options or Options()
    prepare(options.name)
    clock = Deadline(options.seconds)
    answer = find(options.name)(problem, options)
    if problem.evaluate(answer.plan).feasible:
        return answer
    from godwit.placement.proof.clash import feasible_plan

    plan = feasible_plan(problem, clock)
    seen = problem.evaluate(plan)
    if not seen.feasible:
        msg = "no plan that keeps every constraint was found in time; give more time or relax a constraint"
        raise PlacementError(msg)
    note = f"{options.name} found no feasible plan; this one comes from the constraint search"
    return replace(answer, plan=plan, cost=seen.cost, seconds=clock.spent(), notes=(*answer.notes, note))


def finish(
    problem: Problem,
    options: Options,
    clock: Deadline,
    plan: PlanVector,
    *,
    examined: int,
    complete: bool,
    proof: Proof | None = None,
    front: tuple[FrontPlan, ...] = (),
    notes: tuple[str, ...] = (),
) -> SearchResult:
    """An answer never worse than the root or than the plan the search was told to start from."""
    best = min(
        [plan, problem.root] + ([options.start] if options.start else []),
        key=lambda p: (problem.evaluate(p).cost, p),
    )
    return SearchResult(
        options.name,
        best,
        problem.evaluate(best).cost,
        examined,
        clock.spent(),
        complete,
        front,
        proof=proof,
        notes=notes,
    )
