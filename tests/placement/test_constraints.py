"""Hard constraints: kept by every search, and named when they clash."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import PlacementError
from godwit.placement.problem.build import build_problem
from godwit.placement.problem.constraints import Constraints
from godwit.placement.problem.network import Network
from godwit.placement.problem.problem import Problem
from godwit.placement.search.base import Options, search
from godwit.placement.search.names import SEARCHES
from tests.placement.helpers import all_plans, random_problem


def constrained(base: Problem, wish: Constraints) -> Problem:
    return build_problem(base.workflow, base.network, base.tables, base.root, base.objective, wish)


def sites_of(problem, plan):
    return {name: site for name, (site, _) in problem.describe(plan).items()}


def keeps(problem: Problem, plan) -> bool:
    """Checked from the names, not with the kernels."""
    where, wish = sites_of(problem, plan), problem.constraints
    region = {s.name: s.region for s in problem.network.sites}
    if any(where[name] not in sites for name, sites in wish.pinned):
        return False
    if any(where[a] == where[b] for a, b in wish.apart):
        return False
    for name, inside in wish.stay_in:
        readers = [e.target for e in problem.workflow.edges if e.source == name]
        for reader in [name, *readers]:
            if any(region[s] != inside for s in route(problem.network, where[name], where[reader])):
                return False
    if wish.cpu:
        for site in problem.network.sites:
            used = sum(o.cpu for o in problem.workflow.operators if where[o.name] == site.name)
            if used > site.cpu + 1e-9:
                return False
    if wish.links and overloaded(problem, where):
        return False
    return wish.latency_limit_ms is None or problem.evaluate(plan).latency_ms <= wish.latency_limit_ms + 1e-9


def route(network: Network, start: str, end: str) -> list[str]:
    here, goal, way = network.index[end], network.index[start], [end]
    while here != goal:
        here = int(network.paths.before[goal, here])
        way.append(network.sites[here].name)
    return way[::-1]


def overloaded(problem: Problem, where) -> bool:
    load: dict[tuple[str, str], float] = {}
    for e in problem.workflow.edges:
        way = route(problem.network, where[e.source], where[e.target])
        for hop in pairwise(way):
            load[hop] = load.get(hop, 0.0) + e.mbps
    room = {}
    for link in problem.network.links:
        for pair in ((link.a, link.b), (link.b, link.a)):
            room[pair] = room.get(pair, 0.0) + link.mbps
    return any(x > room[pair] + 1e-9 for pair, x in load.items())


wishes = st.sampled_from(
    [
        Constraints(apart=(("op0", "op1"),)),
        Constraints(cpu=True),
        Constraints(links=True),
        Constraints(pinned=(("op0", ("s0", "s1")),), apart=(("op0", "op2"),)),
        Constraints(stay_in=(("op1", "us"),)),
        Constraints(latency_limit_ms=6.0),
        Constraints(cpu=True, apart=(("op0", "op3"),), latency_limit_ms=9.0),
    ]
)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5000), wishes, st.booleans())
@pytest.mark.parametrize("name", ["auto", "esc", "heuristic", "greedy", "optimum", "rss"])
def test_the_answer_keeps_every_constraint_or_says_what_clashes(name, seed, wish, weighted):
    base = random_problem(seed, operators=4, sites=4, weighted=weighted, cpu=2.0)
    loose = replace(base, constraints=wish)
    possible = any(keeps(loose, p) and loose.evaluate(p).latency_ms < 1e9 for p in all_plans(loose))
    if not possible:
        with pytest.raises(PlacementError, match=r"clash|can run nowhere"):
            search(constrained(base, wish), Options(name, seconds=0.5, samples=64))
        return
    problem = constrained(base, wish)
    assert keeps(problem, search(problem, Options(name, seconds=0.5, samples=64)).plan)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 5000), wishes)
def test_the_constrained_optimum_is_the_cheapest_plan_that_keeps_them(seed, wish):
    base = random_problem(seed, operators=4, sites=3, cpu=2.0)
    try:
        problem = constrained(base, wish)
        answer = search(problem, Options("optimum"))
    except PlacementError:
        return
    allowed = [p for p in all_plans(problem) if keeps(problem, p)]
    assert answer.cost == min(problem.evaluate(p).cost for p in allowed)
    assert answer.gap == 0.0


def test_a_clash_names_its_members_and_nobody_else():
    base = random_problem(1, operators=4, sites=3, forbid=0.0)
    wish = Constraints(
        pinned=(("op0", ("s0",)), ("op1", ("s0",)), ("op2", ("s1",))), apart=(("op0", "op1"), ("op2", "op3"))
    )
    with pytest.raises(PlacementError) as fault:
        search(constrained(base, wish), Options("auto"))
    text = str(fault.value)
    assert "these clash: op0 pinned to s0 + op1 pinned to s0 + op0 apart from op1" in text
    assert "op2" not in text


def test_cpu_that_cannot_fit():
    base = random_problem(1, operators=5, sites=2, forbid=0.0, cpu=2.0)
    with pytest.raises(PlacementError, match="these clash: CPU of the sites"):
        search(constrained(base, Constraints(cpu=True)), Options("auto"))


def test_a_latency_nobody_can_reach():
    base = random_problem(1, operators=4, sites=3)
    with pytest.raises(PlacementError, match="these clash: latency at most"):
        search(constrained(base, Constraints(latency_limit_ms=0.01)), Options("heuristic"))


def test_a_region_against_a_pin():
    base = random_problem(1, operators=4, sites=4)
    wish = Constraints(pinned=(("op0", ("s1",)),), stay_in=(("op0", "us"),))
    with pytest.raises(PlacementError, match="op0 can run nowhere: op0 pinned to s1; data of op0 stays in region us"):
        constrained(base, wish)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Constraints(pinned=(("ghost", ("s0",)),)), "unknown operator 'ghost'"),
        (Constraints(pinned=(("op0", ("nowhere",)),)), "unknown site 'nowhere'"),
        (Constraints(stay_in=(("op0", "mars"),)), "no site is in it"),
        (Constraints(apart=(("op0", "op0"),)), "apart from itself"),
    ],
)
def test_constraints_that_make_no_sense(wish, words):
    with pytest.raises(PlacementError, match=words):
        constrained(random_problem(1), wish)


@pytest.mark.parametrize("name", [n for n in sorted(SEARCHES) if n not in ("esc", "esq", "rand-esc")])
def test_every_search_repairs_a_deployed_plan_that_breaks_a_constraint(name):
    base = random_problem(21, operators=6, sites=12, forbid=0.0)
    base = base.at((0,) * 6)
    wish = Constraints(apart=(("op0", "op1"), ("op2", "op3")))
    problem = constrained(base, wish)
    assert not problem.evaluate(problem.root).feasible
    answer = search(problem, Options(name, seconds=1.0))
    assert keeps(problem, answer.plan)


def test_parts_and_combine_are_inverse():
    wish = Constraints((("a", ("x",)),), (("a", "b"),), (("b", "eu"),), cpu=True, links=True, latency_limit_ms=3.0)
    assert Constraints.combine([part for _, part in wish.parts()]) == wish
