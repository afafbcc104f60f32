"""Actions and chains of adaptation decisions (section 2.1 of APEROL): how one plan becomes the next, and the next.

The search starts from the deployed plan, its answer is deployed and becomes the root of the next decision.
Conditions change between decisions: here a seeded drift of operator latencies, the same for every algorithm that is
compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.search.base import Options, SearchResult, search


@dataclass(frozen=True)
class SiteChoice:
    """One operator to one (site, platform)."""

    operator: str
    site: str
    platform: str


def actions_between(problem: Problem, old: PlanVector, new: PlanVector) -> tuple[SiteChoice, ...]:
    """The actions that turn one plan into the other, by operator name."""
    before, after = problem.describe(old), problem.describe(new)
    return tuple(SiteChoice(name, *after[name]) for name in sorted(after) if after[name] != before[name])


@dataclass(frozen=True)
class ChainLink:
    """One link of a chain."""

    problem: Problem
    answer: SearchResult
    actions: tuple[SiteChoice, ...]
    #: cost of keeping the deployed plan minus cost of the answer, both under this decision's conditions
    improvement: float


def drifted(problem: Problem, step: int, seed: int, strength: float = 0.5) -> Problem:
    """The problem under conditions of step k: every site's speed varies by a lognormal factor."""
    if step == 0:
        return problem
    random = np.random.default_rng([seed, step])
    by_site = random.lognormal(0.0, strength, size=len(problem.network.sites))
    factor = by_site[[s for s, _ in problem.network.actions]]
    with np.errstate(invalid="ignore"):
        latency = problem.tables.latency * factor
    tables = replace(problem.tables, latency=latency, throughput=problem.tables.throughput / factor)
    return replace(problem, tables=tables)


def decisions(problem: Problem, options: Options, length: int, seed: int = 0) -> Iterator[ChainLink]:
    """`length` decisions, each from the plan the last one deployed, under drifting conditions."""
    root = problem.root
    for step in range(length):
        now = drifted(problem, step, seed).at(root)
        answer = search(now, options)
        gain = now.evaluate(root).cost - answer.cost
        yield ChainLink(now, answer, actions_between(now, root, answer.plan), gain)
        root = answer.plan
