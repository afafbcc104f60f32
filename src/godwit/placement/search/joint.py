"""Many workflows at once on the same sites: CPU is shared, the sum of the costs counts.

Best response: each workflow in turn is placed again with the CPU that the others leave, until a whole round changes
nothing. Each workflow alone on the empty network bounds what it can ever reach, so the sum of these bounds proves a
gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from godwit.errors import PlacementError
from godwit.placement.problem.problem import PlanVector, Problem
from godwit.placement.search.base import Options, SearchResult, search
from godwit.placement.search.limits import Deadline, Proof

ROUNDS = 8


@dataclass(frozen=True)
class JointAnswer:
    """One plan a workflow, and what is proven about their sum."""

    plans: tuple[PlanVector, ...]
    costs: tuple[float, ...]
    rounds: int
    seconds: float
    #: no set of plans costs less than this together; None if a search gave no bound
    proof: Proof | None

    @property
    def cost(self) -> float:
        """The sum over the workflows."""
        return sum(self.costs)


def place_all(problems: tuple[Problem, ...], options: Options | None = None) -> JointAnswer:
    """Place every workflow; raises if their CPU demands cannot be met together in the order tried."""
    options = options or Options()
    _check_same_network(problems)
    clock = Deadline(options.seconds)
    turns = len(problems) * 2
    alone = [search(p, _share(options, turns)) for p in problems]
    # the demanding ones choose first: they are the hardest to fit in later
    order = sorted(range(len(problems)), key=lambda i: -sum(o.cpu for o in problems[i].workflow.operators))
    plans: dict[int, PlanVector] = {}
    for i in order:
        plans[i] = search(_beside(problems, plans, i), _share(options, turns)).plan
    rounds = 1
    while rounds < ROUNDS and not clock.over() and _improve(problems, plans, order, options):
        rounds += 1
    found = tuple(plans[i] for i in range(len(problems)))
    costs = tuple(p.evaluate(plan).cost for p, plan in zip(problems, found, strict=True))
    return JointAnswer(found, costs, rounds, clock.spent(), _sum_of_bounds(alone))


def _improve(problems: tuple[Problem, ...], plans: dict[int, PlanVector], order: list[int], options: Options) -> bool:
    """One round of best responses; True if a plan got cheaper."""
    changed = False
    for i in order:
        problem = _beside(problems, plans, i)
        answer = search(problem, replace(_share(options, len(problems) * 4), start=plans[i]))
        if answer.cost < problem.evaluate(plans[i]).cost:
            plans[i], changed = answer.plan, True
    return changed


def _beside(problems: tuple[Problem, ...], plans: dict[int, PlanVector], i: int) -> Problem:
    """Problem i with the CPU that the other placed workflows take already gone."""
    network = problems[i].network
    taken = np.zeros(len(network.sites))
    for j, plan in plans.items():
        if j != i:
            for operator, action in zip(problems[j].workflow.operators, plan, strict=True):
                taken[network.actions[action][0]] += operator.cpu
    used = tuple((s.name, float(t)) for s, t in zip(network.sites, taken, strict=True) if t > 0)
    return replace(problems[i], constraints=replace(problems[i].constraints, cpu=True, cpu_taken=used))


def _share(options: Options, turns: int) -> Options:
    return replace(options, seconds=None if options.seconds is None else options.seconds / turns)


def _sum_of_bounds(alone: list[SearchResult]) -> Proof | None:
    proofs = [a.proof for a in alone]
    if any(p is None for p in proofs):
        return None
    return Proof(sum(p.bound for p in proofs if p is not None), "each workflow's bound with the network to itself")


def _check_same_network(problems: tuple[Problem, ...]) -> None:
    if not problems:
        msg = "there is no workflow to place; give at least one"
        raise PlacementError(msg)
    if any(p.network != problems[0].network for p in problems):
        msg = "the workflows name different networks; workflows that share sites must share one network"
        raise PlacementError(msg)
