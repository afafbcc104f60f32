"""Evolutionary search, after APEROL's outlook: seed with GREEDY and HEURISTIC's first front, recombine, mutate.

A child takes each operator's action from one of two parents; about one operator in n then jumps, half of the time to
any allowed action, half of the time to one of the nearest. The fittest (cheapest) plans survive; every plan seen is
offered to a Pareto front.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from godwit.placement.kernels.cost import BROKEN, evaluate_many
from godwit.placement.problem.problem import Problem
from godwit.placement.search import greedy, heuristic
from godwit.placement.search.base import Options, SearchResult, finish
from godwit.placement.search.front import Front
from godwit.placement.search.limits import Deadline

POPULATION, OFFSPRING, SHARE = 128, 512, 128
#: offspring for one of `Options.samples`
BUDGET = 20
#: rounds of HEURISTIC that seed the population
ROUNDS = 4
#: how many of the nearest actions a short jump chooses from
NEAR = 16

Plans = NDArray[np.int64]


class _Breeder:
    """Random variation; all randomness comes from one generator."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.random, self.choices = np.random.default_rng(seed), problem.choices
        self.site = problem.arrays.site
        tables: dict[bytes, Plans] = {}
        for c in self.choices:  # most operators share one set of choices
            if c.tobytes() not in tables:
                tables[c.tobytes()] = _nearest(problem, c)
        self.near = [tables[c.tobytes()] for c in self.choices]

    def children(self, parents: Plans, count: int) -> Plans:
        """`count` plans from a population sorted by cost; the better half is chosen more often."""
        picks = self.random.integers(0, len(parents), size=(4, count))
        mother, father = parents[np.minimum(picks[0], picks[1])], parents[np.minimum(picks[2], picks[3])]
        child = np.where(self.random.random(mother.shape) < 0.5, mother, father)
        jump = self.random.random(child.shape) < 1.2 / child.shape[1]
        short = self.random.random(child.shape) < 0.5
        for o, choice in enumerate(self.choices):
            anywhere = choice[self.random.integers(0, len(choice), size=count)]
            near = self.near[o][self.site[child[:, o]], self.random.integers(0, self.near[o].shape[1], size=count)]
            child[:, o] = np.where(jump[:, o], np.where(short[:, o], near, anywhere), child[:, o])
        return np.ascontiguousarray(child)


def _nearest(problem: Problem, choices: Plans) -> Plans:
    """For each site, the choices nearest to it."""
    k = min(NEAR, len(choices))
    away = problem.network.paths.distance[:, problem.arrays.site[choices]].astype(np.float32)
    return np.asarray(choices[np.argpartition(away, k - 1, axis=1)[:, :k]])


def _evaluated(
    problem: Problem, plans: Plans, pool: ThreadPoolExecutor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    vectors, costs = np.empty((len(plans), 4)), np.empty(len(plans))

    def share(lo: int) -> None:
        part = slice(lo, lo + SHARE)
        evaluate_many(problem.arrays, plans[part], vectors[part], costs[part])

    for _ in pool.map(share, range(0, len(plans), SHARE)):
        pass
    return vectors, costs


def _seeds(problem: Problem, options: Options, clock: Deadline) -> Iterator[Plans]:
    root = np.array(problem.root, dtype=np.int64)
    yield root[None]
    if options.start:
        yield np.array(options.start, dtype=np.int64)[None]
    yield greedy.climb(problem, root, clock)[0][None]
    yield heuristic.gathered(problem)
    front = heuristic.starting_front(problem, [problem.root])
    heuristic.Grower(problem, front, clock, None).grow(rounds=ROUNDS)
    yield front.plans[front.members()[:POPULATION]]


def search(problem: Problem, options: Options) -> SearchResult:
    """See `base.Search`."""
    clock, breeder, front = Deadline(options.seconds), _Breeder(problem, options.seed), Front(len(problem.root))
    population = np.unique(np.vstack(list(_seeds(problem, options, clock))), axis=0)
    examined, budget = 0, options.samples * BUDGET
    with ThreadPoolExecutor(options.threads) as pool:
        vectors, costs = _evaluated(problem, population, pool)
        while examined < budget and not clock.over():
            children = breeder.children(population[np.argsort(costs, kind="stable")], OFFSPRING)
            new_vectors, new_costs = _evaluated(problem, children, pool)
            examined += len(children)
            population, vectors, costs = _survivors(
                np.vstack([population, children]), np.vstack([vectors, new_vectors]), np.concatenate([costs, new_costs])
            )
    for plan, vector, cost in zip(population, vectors, costs, strict=True):
        if cost < BROKEN:
            front.add(plan, vector, float(cost))
    return finish(
        problem,
        options,
        clock,
        tuple(population[0].tolist()),
        examined=examined,
        complete=examined >= budget,
        front=front.export(problem),
    )


def _survivors(
    plans: Plans, vectors: NDArray[np.float64], costs: NDArray[np.float64]
) -> tuple[Plans, NDArray[np.float64], NDArray[np.float64]]:
    """The cheapest distinct plans, cheapest first."""
    _, first = np.unique(plans, axis=0, return_index=True)
    keep = first[np.argsort(costs[first], kind="stable")[:POPULATION]]
    return plans[keep], vectors[keep], costs[keep]
