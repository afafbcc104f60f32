"""The optimiser on loads that change: near the best order at each time, calm where nothing is to be won."""

from __future__ import annotations

import random
from dataclasses import replace

from godwit.ids import QueryId
from godwit.replan.forecast import DEFAULTS
from godwit.replan.join_tree import JoinTree, parse, trees
from godwit.replan.load import BoxLoad, loads, window
from godwit.replan.optimiser import MeasuredQuery, ReplanMemory, ReplanPolicy, best_orders, cost, decide

Q = QueryId("q")
ORDERS = tuple(trees("abcd"))
RATES = dict.fromkeys("abcd", 5000.0)
GEOMETRY = window(10)


def _load(strong: tuple[str, str], weak: tuple[str, str]) -> BoxLoad:
    """One pair of streams matches often, one rarely."""
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c"), ("b", "d")]
    sigma = dict.fromkeys(pairs, 2e-5)
    return BoxLoad(RATES, sigma | {strong: 2e-4, weak: 2e-6})


def _query(order: JoinTree, load: BoxLoad, name: QueryId = Q) -> MeasuredQuery:
    return MeasuredQuery(name, order, ORDERS, load, GEOMETRY)


def _noisy(load: BoxLoad, rng: random.Random) -> BoxLoad:
    return BoxLoad(
        {alias: rate * rng.gauss(1, 0.05) for alias, rate in load.rates.items()},
        {pair: share * rng.gauss(1, 0.1) for pair, share in load.sigma.items()},
    )


def _cost(order: JoinTree, load: BoxLoad) -> float:
    return cost(loads(order, load, GEOMETRY), DEFAULTS)


def test_small_reduction_factors_go_down() -> None:
    """Section 6.3: the join that lets least through is made first."""
    load = _load(("a", "b"), ("c", "d"))
    best = best_orders({Q: _query(parse("a JOIN b JOIN c JOIN d"), load)}, DEFAULTS)[Q]
    assert frozenset("cd") in {node.covers for node in best.joins}
    assert frozenset("ab") not in {node.covers for node in best.inner}
    assert _cost(best, load) == min(_cost(tree, load) for tree in ORDERS)


def test_noise_alone_changes_nothing() -> None:
    """Two orders within the noise of each other: whichever runs, stays."""
    rng = random.Random(7)
    load = BoxLoad(RATES, dict.fromkeys([("a", "b"), ("b", "c"), ("c", "d")], 2e-5))
    memory, order, changes = ReplanMemory(), ORDERS[0], 0
    start = best_orders({Q: _query(order, load)}, DEFAULTS)[Q]
    order = start
    for second in range(300):
        memory, (decision,) = decide(memory, {Q: _query(order, _noisy(load, rng))}, second, ReplanPolicy())
        changes += decision.change
        order = decision.order
    assert changes == 0


def test_a_change_that_does_not_pay_is_not_made() -> None:
    load = _load(("a", "b"), ("c", "d"))
    query = _query(parse("a JOIN b JOIN c JOIN d"), load)
    _, (decision,) = decide(ReplanMemory(), {Q: query}, 0, ReplanPolicy(confirm=1, horizon_s=0.1))
    assert not decision.change
    assert "but background costs" in decision.why
    _, (decision,) = decide(ReplanMemory(), {Q: query}, 0, ReplanPolicy(confirm=1))
    assert decision.change
    assert decision.strategy == "background"
    assert "less): wins" in decision.why


def test_it_asks_twice_and_waits_between_changes() -> None:
    query, policy = _query(parse("a JOIN b JOIN c JOIN d"), _load(("a", "b"), ("c", "d"))), ReplanPolicy(clear_gain=1)
    memory, (first,) = decide(ReplanMemory(), {Q: query}, 0, policy)
    assert "seen 1 of 2 times" in first.why
    memory, (second,) = decide(memory, {Q: query}, 1, policy)
    assert second.change
    back = _query(second.order, _load(("c", "d"), ("a", "b")))
    for now in (2, 3):
        memory, (third,) = decide(memory, {Q: back}, now, policy)
    assert "changed 2 s ago, waits 5 s" in third.why
    _, (at_once,) = decide(ReplanMemory(), {Q: query}, 0, ReplanPolicy())
    assert at_once.change


def test_a_shared_join_is_not_left_for_a_little() -> None:
    """q alone would begin with c JOIN d; r joins a and b anyway, so q goes on sharing that."""
    load = BoxLoad(RATES, {("a", "b"): 1.2e-5, ("b", "c"): 1e-5, ("c", "d"): 1e-5})
    chain = [frozenset(pair) for pair in ("ab", "bc", "cd")]
    orders = tuple(trees("abcd", lambda x, y: any(len(link & x) == len(link & y) == 1 for link in chain)))
    shared = parse("a JOIN b JOIN c JOIN d")
    q = replace(_query(shared, load), orders=orders, meaning=lambda covers: " ".join(sorted(covers)))
    alone = best_orders({Q: replace(q, meaning=None)}, DEFAULTS)[Q]
    assert frozenset("ab") not in {node.covers for node in alone.inner}
    r = MeasuredQuery(QueryId("r"), JoinTree.left_deep("ab"), (JoinTree.left_deep("ab"),), load, GEOMETRY)
    r = replace(r, meaning=q.meaning)
    together = best_orders({Q: q, r.id: r}, DEFAULTS)
    assert frozenset("ab") in {node.covers for node in together[Q].inner}


def test_readers_of_one_box_change_together() -> None:
    """Two queries that share all joins: after the load has changed both want the same order, and go on sharing."""
    load = _load(("a", "b"), ("c", "d"))
    start = parse("a JOIN b JOIN c JOIN d")

    def meaning(covers: frozenset[str]) -> str:
        return " ".join(sorted(covers))

    queries = {name: replace(_query(start, load, name), meaning=meaning) for name in (QueryId("q"), QueryId("r"))}
    found = best_orders(queries, DEFAULTS)
    assert len(set(found.values())) == 1


def test_noise_between_equal_orders_does_not_put_a_change_off() -> None:
    """Which of the good orders is named changes from look to look; that the running one is wrong does not."""
    rng, policy = random.Random(3), ReplanPolicy(clear_gain=2.0)  # (no single look is clear)
    load, order, memory = _load(("a", "b"), ("c", "d")), parse("a JOIN b JOIN c JOIN d"), ReplanMemory()
    for second in range(policy.confirm):
        memory, (decision,) = decide(memory, {Q: _query(order, _noisy(load, rng))}, second, policy)
    assert decision.change


def test_of_nearly_equal_orders_the_one_that_costs_less_to_change_to_is_taken() -> None:
    """What (a b) c keeps is of use to ((a b) d) c, and not to c ((a d) b), which takes as much."""
    sigma = {("a", "b"): 2e-5, ("a", "d"): 2e-5, ("b", "c"): 2e-3, ("c", "d"): 2e-3}
    query = _query(parse("((a JOIN b) JOIN c) JOIN d"), BoxLoad(RATES, sigma))
    _, (decision,) = decide(ReplanMemory(), {Q: query}, 0, ReplanPolicy())
    assert decision.change
    assert frozenset("ab") in {node.covers for node in decision.order.joins}
