"""The exact models: brute force on tiny problems, the literal model on small ones, and the degenerate cases."""

from __future__ import annotations

from itertools import combinations

import pytest

from godwit.admission import exact, literal
from godwit.admission.check import violations
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.incumbent import cost
from godwit.admission.model import AdmissionQuery, Catalog, Host, HostNetwork, ObjectiveWeights
from godwit.admission.scope import PlanningScope, load_snapshot, scope
from godwit.admission.state import LedgerSnapshot
from tests.admission.worlds import join, judge, random_world, world


def brute_force(problem: PlanningScope) -> float | None:
    """Two hosts, one query: every set of placements, each host receiving what it lacks from the other one."""
    network, catalog, query = problem.network, problem.catalog, problem.query
    pairs = [(h, o) for h in range(2) for o in query.operators]
    best = None
    for size in range(1, 3):
        for placed in combinations(pairs, size):
            for host in range(2):
                found = _complete(network, catalog, query, set(placed), host)
                if found is not None:
                    price = _price(problem, found)
                    best = price if best is None else min(best, price)
    return best


def _complete(network: HostNetwork, catalog: Catalog, query: AdmissionQuery, placed: set[tuple[int, int]], host: int):
    """The only transfers that make the placements work, if any do and everything fits."""
    starts = {(h, s) for s in query.streams for h in catalog.streams[s].homes}
    starts |= {(h, catalog.operators[o].output) for h, o in placed}
    needs = {(h, s) for h, o in placed for s in catalog.operators[o].inputs} | {(host, query.result)}
    missing = needs - starts
    if any((1 - h, s) not in starts for h, s in missing):
        return None
    flows = frozenset((1 - h, h, s) for h, s in missing)
    state = LedgerSnapshot(frozenset({(host, query.result)}), flows, frozenset(placed))
    return None if violations(network, catalog, state, {query.result}) else state


def _price(problem: PlanningScope, state: LedgerSnapshot) -> float:
    return cost(problem, load_snapshot(problem.network, problem.catalog, state))


@pytest.mark.parametrize("ways", [2, 3])
@pytest.mark.parametrize("cpu", [12.0, 25.0, 60.0])
@pytest.mark.parametrize("nic", [5.0, 15.0, 100.0])
@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_tiny_problems_against_brute_force(ways: int, cpu: float, nic: float, balance: float) -> None:
    names = "abc"[:ways]
    hosts = [Host("x", cpu, nic, nic), Host("y", 1.3 * cpu, nic, 1.1 * nic)]
    homes = {name: "xyx"[number] for number, name in enumerate(names)}
    network, catalog, (query,) = world(hosts, homes, [join("q", *names)])
    weights = ObjectiveWeights(1e4, 1 / network.nic_out.sum(), 1 / network.cpu.sum(), balance)
    problem = scope(network, catalog, LedgerSnapshot(frozenset(), frozenset(), frozenset()), (), query, weights)
    answer, expected = exact.optimum(problem, 20.0), brute_force(problem)
    assert answer.proved
    assert (answer.ledger is None) == (expected is None)
    if answer.ledger is not None:
        judge(answer.ledger, {query.result})
        assert cost(problem, answer.ledger) == pytest.approx(expected, abs=1e-6)


def _compare(seed: int, links: bool, hosts: int, queries: int, arities: tuple[int, ...], balance: float = 1.0) -> int:
    """Admit query by query with the fast exact model; the literal one must agree every time it finishes."""
    network, catalog, arrivals = random_world(
        seed, hosts, queries=queries, nic=40.0, cpu=45.0, arities=arities, links=links
    )
    paper = ObjectiveWeights.paper(network)
    weights = ObjectiveWeights(paper.admit, paper.network, paper.cpu, balance, migrate=0.001)
    state, admitted, compared = LedgerSnapshot(frozenset(), frozenset(), frozenset()), set[int](), 0
    for query in arrivals:
        if query.result in admitted:
            continue
        problem = scope(network, catalog, state, admitted, query, weights)
        fast, slow = exact.optimum(problem, 20.0), literal.solve(problem, 60.0)
        assert fast.proved
        if slow.proved:
            compared += 1
            assert (fast.ledger is None) == (slow.ledger is None)
            if fast.ledger is not None and slow.ledger is not None:
                judge(slow.ledger, admitted | {query.result})
                assert cost(problem, fast.ledger) == pytest.approx(cost(problem, slow.ledger), abs=1e-6)
        if fast.ledger is not None:
            admitted.add(query.result)
            judge(fast.ledger, admitted)
            state = fast.ledger.snapshot()
    return compared


@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize(
    ("seed", "hosts", "arities", "balance"), [(1, 3, (2,), 1.0), (2, 2, (3,), 1.0), (3, 2, (2, 3), 0.0)]
)
def test_fast_models_equal_the_literal_one(
    seed: int, hosts: int, arities: tuple[int, ...], balance: float, links: bool
) -> None:
    """Small enough for the literal model to finish; `test_..._at_length` goes further."""
    assert _compare(seed, links, hosts, 3, arities, balance) >= 2


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10, 16))
@pytest.mark.parametrize("links", [False, True])
def test_fast_models_equal_the_literal_one_at_length(seed: int, links: bool) -> None:
    assert _compare(seed, links, 3, 5, (2, 3)) >= 2


@pytest.mark.parametrize("seed", range(2))
def test_any_plan_agrees_with_the_optimum(seed: int) -> None:
    network, catalog, arrivals = random_world(seed, 4, streams=8, queries=8, cpu=40.0, nic=30.0, arities=(2, 3, 4))
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(referee=0.0))
    for query in arrivals:
        if query.result not in planner.queries:
            state = planner.ledger.snapshot()
            problem = scope(network, catalog, state, planner.queries, query, ObjectiveWeights.pack(network))
            some, best = exact.any_plan(problem, 10.0), exact.optimum(problem, 10.0)
            assert (some.ledger is None) == (best.ledger is None)
            if some.ledger is not None:
                judge(some.ledger, {*planner.queries, query.result})
        planner.admit(query)
        judge(planner.ledger, planner.queries)


def test_relays_carry_what_the_origin_cannot_send() -> None:
    """The home can send one copy only; two hosts need the stream: the first must pass it on."""
    hosts = [Host("home", 0.0, 100.0, 10.0), Host("one", 20.0, 100.0, 100.0), Host("two", 20.0, 100.0, 100.0)]
    homes = {"x": "home", "y": "one", "z": "two"}
    network, catalog, queries = world(hosts, homes, [join("p", "x", "y"), join("q", "x", "z")])
    planner = IncrementalPlanner(network, catalog)
    assert all(planner.admit(query).admitted for query in queries)
    judge(planner.ledger, planner.queries)
    assert sum(sender == 0 for sender in planner.ledger.received[queries[0].streams[0]].values()) == 1


DEGENERATE = {
    "zero CPU": ([Host("h", 0.0, 100.0, 100.0)], {"a": "h", "b": "h"}, False),
    "one host": ([Host("h", 20.0, 0.0, 1.0)], {"a": "h", "b": "h"}, True),
    "no way out": ([Host("h", 20.0, 100.0, 0.0)], {"a": "h", "b": "h"}, False),
    "no home": ([Host("h", 100.0, 100.0, 100.0)], {"a": "h", "b": None}, False),
    "no NIC between": ([Host("h", 20.0, 0.0, 1.0), Host("g", 20.0, 0.0, 1.0)], {"a": "h", "b": "g"}, False),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_cases(case: str) -> None:
    hosts, homes, fits = DEGENERATE[case]
    network, catalog, (query,) = world(hosts, homes, [join("q", "a", "b")])
    empty = LedgerSnapshot(frozenset(), frozenset(), frozenset())
    problem = scope(network, catalog, empty, (), query, ObjectiveWeights.paper(network))
    answers = [exact.optimum(problem, 5.0), literal.solve(problem, 5.0), exact.any_plan(problem, 5.0)]
    assert [answer.ledger is not None for answer in answers] == [fits] * 3
    assert all(answer.proved for answer in answers)
    assert IncrementalPlanner(network, catalog).admit(query).admitted is fits
