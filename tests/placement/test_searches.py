"""What holds for every search, and exactness where a search claims it."""

import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import ConfigError
from godwit.placement.search.base import Options, find, prepare, search
from godwit.placement.search.front import whole_front
from godwit.placement.search.names import SEARCHES
from tests.placement.helpers import all_plans, problems, random_problem, reference_cost

EVERY = sorted(SEARCHES)
relaxed = settings(max_examples=25, deadline=None)


@relaxed
@given(problems, st.integers(0, 1000))
def test_kernel_costs_are_the_definition(problem, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        plan = tuple(rng.integers(0, len(problem.network.actions), size=len(problem.root)).tolist())
        expected = reference_cost(problem, plan)
        cost = problem.evaluate(plan).cost
        assert cost == expected if problem.objective.is_latency else cost == pytest.approx(expected, abs=1e-12)


@relaxed
@given(problems)
@pytest.mark.parametrize("name", ["esc", "esq", "rand-esc"])
def test_exhaustive_searches_equal_brute_force(name, problem):
    best = min(reference_cost(problem, p) for p in all_plans(problem))
    answer = search(problem, Options(name, threads=2, batch=7))
    assert answer.examined == len(all_plans(problem))
    assert answer.cost == pytest.approx(best, abs=1e-12)
    assert answer.gap == 0.0


@relaxed
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_the_proven_optimum_is_the_optimum(seed, operators, sites, tree):
    problem = random_problem(seed, operators, sites, tree=tree)
    best = min(reference_cost(problem, p) for p in all_plans(problem))
    answer = search(problem, Options("optimum"))
    assert (answer.cost, answer.gap) == (best, 0.0)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_proofs_agree_with_counting_on_wider_dags(seed):
    problem = random_problem(seed, operators=6, sites=6, forbid=0.0)
    counted = search(problem, Options("esc"))
    assert search(problem, Options("optimum")).cost == counted.cost


@relaxed
@given(st.integers(0, 10_000))
def test_bounds_of_the_weighted_mode_hold(seed):
    problem = random_problem(seed, operators=4, sites=5, weighted=True)
    best = min(reference_cost(problem, p) for p in all_plans(problem))
    answer = search(problem, Options("optimum"))
    assert answer.proof is not None
    assert answer.proof.bound <= best + 1e-9


@relaxed
@given(problems)
@pytest.mark.parametrize("name", EVERY)
def test_valid_and_never_worse_than_the_root(name, problem):
    answer = search(problem, Options(name, samples=64, seconds=0.2 if name == "auto" else None))
    assert len(answer.plan) == len(problem.root)
    assert all(a in choices for a, choices in zip(answer.plan, problem.choices, strict=True))
    assert answer.cost <= problem.evaluate(problem.root).cost
    assert answer.cost == problem.evaluate(answer.plan).cost
    if answer.proof is not None:
        assert answer.proof.bound <= answer.cost + 1e-9


def dominates(a, b):
    mine = (-a.throughput, a.latency_ms, a.traffic_mbps, a.migration_ms)
    other = (-b.throughput, b.latency_ms, b.traffic_mbps, b.migration_ms)
    return all(x <= y for x, y in zip(mine, other, strict=True)) and mine != other


def values(evaluation):
    return (evaluation.throughput, evaluation.latency_ms, evaluation.traffic_mbps, evaluation.migration_ms)


@relaxed
@given(problems)
def test_the_front_is_the_whole_front_on_small_spaces(problem):
    answer = search(problem, Options("heuristic"))
    assert answer.front_complete
    seen = [problem.evaluate(p) for p in all_plans(problem)]
    seen = [e for e in seen if e.cost < 1e12]
    expected = {values(e) for e in seen if not any(dominates(other, e) for other in seen)}
    assert {values(member.evaluation) for member in answer.front} == expected


@pytest.mark.parametrize("weighted", [False, True])
def test_no_member_of_a_large_front_is_dominated(weighted):
    problem = random_problem(3, operators=7, sites=25, weighted=weighted)
    front = search(problem, Options("heuristic")).front
    assert len(front) > 1
    assert not any(dominates(a.evaluation, b.evaluation) for a in front for b in front)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [n for n in EVERY if n not in ("esc", "esq", "rand-esc")])
def test_same_seed_same_answer_for_any_number_of_threads(name, weighted):
    if name == "auto" and weighted:
        pytest.skip("auto in the weighted mode runs against the clock; its parts are covered one by one")
    problem = random_problem(11, operators=7, sites=30, weighted=weighted)
    answers = [search(problem, Options(name, threads=t, seed=5)) for t in (1, 2, 5)]
    assert len({(a.plan, a.cost, a.examined, a.front) for a in answers}) == 1


@pytest.mark.parametrize("name", ["esc", "esq", "rand-esc"])
def test_counting_does_not_depend_on_threads_or_batches(name):
    problem = random_problem(12, operators=5, sites=8, forbid=0.0)
    answers = {
        (a.plan, a.cost)
        for a in (search(problem, Options(name, threads=t, batch=b)) for t, b in ((1, None), (2, 1000), (4, 77)))
    }
    assert len(answers) == 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_time_limits_hold(name, weighted):
    """Within 50 ms of the limit, the best of three tries; more where more processes run than the machine has cores."""
    problem = random_problem(4, operators=11, sites=300, weighted=weighted, forbid=0.0)
    prepare(name)
    _ = problem.arrays
    over = []
    for _attempt in range(3):
        started = time.perf_counter()
        answer = find(name)(problem, Options(name, seconds=0.25, threads=2, samples=10**9))
        over.append(time.perf_counter() - started - 0.25)
        assert answer.cost <= problem.evaluate(problem.root).cost
        if over[-1] < 0.05 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)):
            return
    pytest.fail(f"over the limit by {min(over) * 1000:.0f} ms")


@pytest.mark.parametrize("sampling", ["sobol", "uniform"])
def test_a_larger_sample_is_no_worse(sampling):
    problem = random_problem(8, operators=6, sites=40)
    small, large = (search(problem, Options("rss", samples=n, sampling=sampling)) for n in (512, 8192))
    assert large.cost <= small.cost
    assert large.examined > small.examined


def test_whole_front_of_one_operator():
    problem = random_problem(1, operators=1, sites=1)
    assert len(whole_front(problem).members()) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "magic"}, "no placement search 'magic'"),
        ({"threads": 0}, "threads is 0"),
        ({"seconds": -1.0}, "must be more than 0"),
        ({"samples": 0}, "samples is 0"),
        ({"sampling": "halton"}, "use sobol or uniform"),
        ({"batch": 0}, "at least 1"),
        ({"hops": 0}, "hops is 0"),
    ],
)
def test_bad_options(wrong, words):
    with pytest.raises(ConfigError, match=words):
        search(random_problem(1), Options(**wrong))
