"""The planner for every day: properties over random lives, every state judged independently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from godwit.admission import heuristic
from godwit.admission.bounds import AggregateHost, FirstComeOrders, best_subset
from godwit.admission.incremental import IncrementalPlanner, PlannerOptions
from godwit.admission.model import Host, ObjectiveWeights
from godwit.admission.orders import JoinOrders
from godwit.admission.soda import Soda, template
from godwit.admission.state import AllocationLedger
from tests.admission.worlds import idle, join, judge, random_world, world

QUICK = PlannerOptions(referee=0.0)
lives = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@lives
@given(
    seed=st.integers(0, 10_000),
    hosts=st.integers(1, 5),
    cpu=st.sampled_from([25.0, 45.0, 90.0]),
    nic=st.sampled_from([11.0, 25.0, 200.0]),
    links=st.booleans(),
    leave=st.lists(st.integers(0, 30), max_size=8),
)
def test_a_life_of_queries(seed: int, hosts: int, cpu: float, nic: float, links: bool, leave: list[int]) -> None:
    """Queries come and go: no admitted query is dropped, every state is feasible and causal, and all ends at zero."""
    network, catalog, arrivals = random_world(seed, hosts, 6, 16, cpu, nic, (2, 3), links and hosts > 2)
    planner = IncrementalPlanner(network, catalog, None, QUICK)
    admitted: dict[int, object] = {}
    for number, query in enumerate(arrivals):
        before = network.cpu.sum() - planner.ledger.cpu_free.sum()
        outcome = planner.admit(query)
        if outcome.admitted:
            admitted[query.result] = query
        if outcome.step == "plan":
            dearest = max(sum(catalog.operators[o].cpu for o in t.values()) for t in heuristic.trees(catalog, query))
            added = network.cpu.sum() - planner.ledger.cpu_free.sum() - before
            assert added <= dearest + 1e-6, "reuse never raises CPU"
        judge(planner.ledger, admitted)
        if number in leave and admitted:
            gone = admitted.pop(min(admitted))
            planner.withdraw(gone)
            judge(planner.ledger, admitted)
    for query in list(admitted.values()):
        planner.withdraw(query)
    judge(planner.ledger, ())
    assert idle(planner.ledger)


@lives
@given(seed=st.integers(0, 10_000), nic=st.sampled_from([15.0, 40.0]))
def test_rollback_restores_everything(seed: int, nic: float) -> None:
    """A refused query leaves the ledger exactly as it was, whatever was tried for it."""
    network, catalog, arrivals = random_world(seed, 3, 6, 14, 30.0, nic)
    planner = IncrementalPlanner(network, catalog, None, PlannerOptions(reorder=False, referee=0.0))
    for query in arrivals:
        state, free = planner.ledger.snapshot(), planner.ledger.cpu_free.copy()
        if not planner.admit(query).admitted:
            assert planner.ledger.snapshot() == state
            assert np.allclose(planner.ledger.cpu_free, free)


def test_equal_queries_share_everything() -> None:
    specs = [join("p", "a", "b"), join("q", "b", "a")]
    network, catalog, (one, two) = world([Host("h", 20.0, 1.0, 1.0)], {"a": "h", "b": "h"}, specs)
    planner = IncrementalPlanner(network, catalog)
    assert planner.admit(one).step == "plan"
    assert planner.admit(two).step == "known"
    assert planner.ledger.cpu_free[0] == pytest.approx(0.0)


def test_repair_moves_a_running_operator() -> None:
    """Each host has 11 CPU left and the new join needs 20: a small join must move."""
    hosts = [Host("x", 41.0, 100.0, 100.0), Host("y", 41.0, 100.0, 100.0)]
    homes = {name: "xy"[name in "cdf"] for name in "abcdefg"}
    specs = [join("ab", "a", "b"), join("cd", "c", "d"), join("abe", "a", "b", "e"), join("cdf", "c", "d", "f")]
    network, catalog, queries = world(hosts, homes, [*specs, join("eg", "e", "g")])
    planner = IncrementalPlanner(network, catalog, None, QUICK)
    assert [planner.admit(query).step for query in queries[:4]] == ["plan"] * 4
    assert max(planner.ledger.cpu_free) < 20
    outcome = planner.admit(queries[4])
    assert (outcome.step, outcome.migrated) == ("repair", 1)
    judge(planner.ledger, planner.queries)


def test_new_join_orders_make_room() -> None:
    """abc was planned as (ac)b; then abd and ab come, and only sharing ab fits into the CPU."""
    hosts = [Host("h", 50.5, 1.0, 1.0)]
    homes = dict.fromkeys("abcd", "h")
    specs = [join("ac", "a", "c"), join("abc", "a", "b", "c"), join("abd", "a", "b", "d")]
    network, catalog, (ac, abc, abd) = world(hosts, homes, specs)
    planner = IncrementalPlanner(network, catalog, None, QUICK)
    assert planner.admit(ac).admitted
    assert planner.admit(abc).admitted
    planner.withdraw(ac)
    judge(planner.ledger, planner.queries)
    outcome = planner.admit(abd)
    assert outcome.admitted
    assert outcome.step == "reorder"
    assert outcome.migrated > 0
    judge(planner.ledger, planner.queries)


def test_batch_takes_the_cheapest_first() -> None:
    hosts = [Host("h", 30.5, 1.0, 1.0)]
    specs = [join("cd", "c", "d"), join("ab", "a", "b"), join("abc", "a", "b", "c")]
    network, catalog, queries = world(hosts, dict.fromkeys("abcd", "h"), specs)
    planner = IncrementalPlanner(network, catalog, None, QUICK)
    assert planner.admit(queries[1]).admitted
    assert [outcome.admitted for outcome in planner.admit_batch([queries[0], queries[2]])] == [False, True]


@pytest.mark.parametrize("seed", range(3))
def test_planners_and_bounds_in_their_order(seed: int) -> None:
    network, catalog, arrivals = random_world(seed, 5, 12, 60, 60.0, 80.0, (2, 3))
    planner = IncrementalPlanner(network, catalog, None, QUICK)
    ours = sum(planner.admit(query).admitted for query in arrivals)
    book = AllocationLedger(network, catalog)
    theirs = 0
    for query in arrivals:
        theirs += heuristic.plan(book, query, ObjectiveWeights.paper(network))
        judge(book)
    soda = Soda(network, catalog, seconds=1.0)
    epochs = sum(sum(soda.epoch(arrivals[start : start + 20])) for start in range(0, 60, 20))
    judge(soda.ledger)
    best = best_subset(network, catalog, arrivals, 20.0)
    orders = FirstComeOrders(network, catalog)
    greedy = AggregateHost(network, catalog)
    for bound in (sum(map(orders.admit, arrivals)), sum(map(greedy.admit, arrivals)), ours, theirs, epochs):
        assert bound <= best.limit + 1e-6
    assert best.found <= best.limit + 1e-6
    assert ours >= theirs - 1


def test_join_orders_are_optimal() -> None:
    """Against all combinations of join trees of a few queries."""
    specs = [join(name, *name) for name in ("abc", "abd", "acd", "bcd")]
    _, catalog, queries = world([Host("h", 1.0, 1.0, 1.0)], dict.fromkeys("abcd", "h"), specs)
    orders = JoinOrders(catalog)
    best = {frozenset[int]()}
    for query in queries:
        orders.demand(query)
        best = {have | set(tree.values()) for have in best for tree in heuristic.trees(catalog, query)}
    least = min(sum(catalog.operators[o].cpu for o in have) for have in best)
    answer = orders.solve()
    assert answer.exact
    assert answer.cpu == pytest.approx(least, abs=1e-6)
    orders.demand(queries[0], False)
    assert orders.solve().cpu < least


def test_soda_follows_the_template() -> None:
    _, catalog, (query,) = world([Host("h", 1, 1, 1)], dict.fromkeys("abcd", "h"), [join("q", "a", "b", "c", "d")])
    names = [catalog.streams[catalog.operators[o].output].signature for o in template(catalog, query)]
    assert names == ["(a * b)", "(a * b * c)", "(a * b * c * d)"]


def test_the_planner_of_the_guide_works() -> None:
    """The code in docs/howto/add_an_admission_planner.md is run, not only read."""
    guide = Path(__file__).parents[2] / "docs/howto/add_an_admission_planner.md"
    code = guide.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(code, str(guide), "exec"), names)
    network, catalog, arrivals = random_world(3, 3, 6, 10, 90.0, 60.0)
    book = AllocationLedger(network, catalog)
    admitted = [names["plan"](book, query) for query in arrivals]  # type: ignore[operator]
    assert any(admitted)
    judge(book, {query.result for query, fine in zip(arrivals, admitted, strict=True) if fine})
