"""The re-optimiser: quiet when all is well, patient, and it moves only when the move pays."""

import pytest

from godwit.placement.reoptimise import Observation, Policy, WatchState, observed_problem, step
from godwit.placement.search.base import Options
from tests.placement.helpers import random_problem

POLICY = Policy(patience=2, budget_s=1.0)


class Machine:
    """The state machine with its memory."""

    def __init__(self, problem, policy):
        self.problem, self.policy, self.options = problem, policy, Options("auto", seconds=policy.budget_s)
        self.state = WatchState(problem.root, problem.evaluate(problem.root).latency_ms)

    def decide(self, seen):
        self.state, decision = step(self.state, self.problem, seen, self.policy, self.options)
        return decision


@pytest.fixture
def problem():
    """Deployed at the optimum, so that only a change of conditions can make a move worthwhile."""
    from godwit.placement.search.base import search

    base = random_problem(17, operators=5, sites=8, forbid=0.0)
    return base.at(search(base, Options("optimum")).plan)


def slow(problem, at, factor=20.0):
    """Everything on the first operator's site got slower."""
    where, root = problem.describe(problem.root), problem.root
    loaded = where["op0"][0]
    measured = tuple(
        (o.name, float(problem.latency[i, root[i]]) * factor)
        for i, o in enumerate(problem.workflow.operators)
        if where[o.name][0] == loaded
    )
    return Observation(at, observed_latency(problem, measured), measured)


def observed_latency(problem, measured):
    return observed_problem(problem, problem.root, Observation(0.0, 0.0, measured)).evaluate(problem.root).latency_ms


def test_it_keeps_while_the_plan_does_what_it_promised(problem):
    machine = Machine(problem, POLICY)
    decision = machine.decide(Observation(0.0, machine.state.promised_ms * 1.1))
    assert decision.verdict == "keep"
    assert "is within" in decision.why
    assert decision.answer is None


def test_it_is_patient_then_moves_away_from_the_loaded_site(problem):
    machine = Machine(problem, POLICY)
    first = machine.decide(slow(problem, 0.0))
    assert first.verdict == "keep"
    assert "1 of 2 times in a row" in first.why
    second = machine.decide(slow(problem, 1.0))
    assert second.verdict == "move"
    assert second.gain_ms > 0
    assert second.actions
    assert second.plan == machine.state.deployed != problem.root
    assert "latency" in second.why


def test_one_good_observation_resets_the_patience(problem):
    machine = Machine(problem, POLICY)
    machine.decide(slow(problem, 0.0))
    machine.decide(Observation(1.0, machine.state.promised_ms))
    assert machine.decide(slow(problem, 2.0)).verdict == "keep"


def test_it_cools_down_after_a_move(problem):
    machine = Machine(problem, POLICY)
    for t in (0.0, 1.0):
        decision = machine.decide(slow(problem, t))
    assert decision.verdict == "move"
    bad = machine.state.promised_ms * 10
    machine.decide(Observation(2.0, bad))
    held = machine.decide(Observation(3.0, bad))
    assert held.verdict == "keep"
    assert "the last move was only 2 s ago" in held.why


def test_it_does_not_go_to_and_fro(problem):
    machine = Machine(problem, POLICY)
    for t in (0.0, 1.0):
        machine.decide(slow(problem, t))
    new, old = machine.state.deployed, problem.root
    # now everything is slow at the new places, and fine again at the old ones
    measured = tuple(
        (o.name, float(problem.latency[i, new[i]]) * 50)
        for i, o in enumerate(problem.workflow.operators)
        if new[i] != old[i]
    )
    seen = Observation(40.0, machine.state.promised_ms * 50, measured)
    machine.decide(seen)
    decision = machine.decide(Observation(41.0, seen.latency_ms, measured))
    if decision.verdict == "keep":
        assert "left a moment ago" in decision.why
    else:
        assert decision.plan != old


def test_a_gain_below_the_margin_is_left(problem):
    machine = Machine(problem, Policy(patience=1, margin=0.99, budget_s=1.0))
    decision = machine.decide(slow(problem, 0.0))
    assert decision.verdict == "keep"
    assert "less than the margin" in decision.why


def test_a_move_that_is_not_earned_back_is_left(problem):
    machine = Machine(problem, Policy(patience=1, horizon_s=1e-9, budget_s=1.0))
    decision = machine.decide(slow(problem, 0.0))
    assert decision.verdict == "keep"
    assert "not earned back" in decision.why


def test_slow_without_a_better_plan(problem):
    machine = Machine(problem, Policy(patience=1, budget_s=1.0))
    decision = machine.decide(Observation(0.0, machine.state.promised_ms * 2))
    assert decision.verdict == "keep"
    assert "still the best" in decision.why


def test_measured_rates_replace_estimates(problem):
    edge = problem.workflow.edges[0]
    now = observed_problem(problem, problem.root, Observation(0.0, 1.0, (), ((edge.source, edge.target, 99.0),)))
    assert now.tables.mbps[0] == 99.0
    assert now.root == problem.root
