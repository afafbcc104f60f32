"""Several workflows on the same sites, and chains of decisions."""

from itertools import pairwise

import numpy as np
import pytest

from godwit.errors import PlacementError
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.search.base import Options, search
from godwit.placement.search.chain import actions_between, decisions, drifted
from godwit.placement.search.joint import place_all
from tests.placement.helpers import random_problem


def twins(count: int, cpu: float):
    """Different workflows on one network."""
    first = random_problem(5, operators=3, sites=4, forbid=0.0, cpu=cpu)
    rng = np.random.default_rng(1)
    made = []
    for _ in range(count):
        tables = first.tables
        latency = rng.uniform(0.5, 5.0, tables.latency.shape)
        made.append(
            build_problem(
                first.workflow,
                first.network,
                type(tables)(latency, tables.throughput, tables.mbps, tables.restart_ms, tables.distance_factor),
                first.root,
            )
        )
    return tuple(made)


def used_cpu(problems, plans):
    used = dict.fromkeys((s.name for s in problems[0].network.sites), 0.0)
    for problem, plan in zip(problems, plans, strict=True):
        for operator, (site, _) in zip(problem.workflow.operators, problem.describe(plan).values(), strict=True):
            used[site] += operator.cpu
    return used


def test_together_they_fit_and_the_bound_holds():
    problems = twins(3, cpu=3.0)
    answer = place_all(problems, Options("optimum"))
    assert all(u <= 3.0 for u in used_cpu(problems, answer.plans).values())
    assert answer.proof is not None
    assert answer.proof.bound <= answer.cost


def test_with_room_for_all_each_gets_its_optimum():
    problems = twins(3, cpu=100.0)
    answer = place_all(problems, Options("optimum"))
    assert answer.costs == tuple(search(p, Options("optimum")).cost for p in problems)
    assert answer.proof is not None
    assert answer.proof.bound == answer.cost


def test_too_much_for_the_sites():
    with pytest.raises(PlacementError, match="CPU of the sites"):
        place_all(twins(5, cpu=3.0), Options("auto"))


def test_joint_needs_one_network():
    with pytest.raises(PlacementError, match="must share one network"):
        place_all((random_problem(1), random_problem(2, sites=4)))
    with pytest.raises(PlacementError, match="no workflow to place"):
        place_all(())


def test_actions_lead_from_plan_to_plan():
    problem = random_problem(9, operators=5, sites=6, forbid=0.0)
    answer = search(problem, Options("heuristic"))
    where = problem.describe(problem.root)
    for action in actions_between(problem, problem.root, answer.plan):
        where[action.operator] = (action.site, action.platform)
    assert problem.plan_of(where) == answer.plan
    assert actions_between(problem, answer.plan, answer.plan) == ()


def test_a_chain_starts_each_decision_at_the_deployed_plan():
    problem = random_problem(9, operators=5, sites=6, weighted=True)
    chain = list(decisions(problem, Options("heuristic"), 5))
    assert len(chain) == 5
    for before, after in pairwise(chain):
        assert after.problem.root == before.answer.plan
    assert all(d.improvement >= 0.0 for d in chain)


def test_drift_is_the_same_for_everyone():
    problem = random_problem(9)
    assert (drifted(problem, 3, 7).tables.latency == drifted(problem, 3, 7).tables.latency).all()
    assert drifted(problem, 0, 7) is problem


def test_constraints_travel_with_the_problem():
    problem = random_problem(9, operators=4, sites=5, constraints=Constraints(pinned=(("op0", ("s0",)),)))
    for decision in decisions(problem, Options("greedy"), 3):
        assert problem.describe(decision.answer.plan)["op0"][0] == "s0"
