"""Counts become loads, and loads the orders that are best for them."""

from __future__ import annotations

import pytest

from godwit.ids import QueryId
from godwit.replan.box import JoinBox
from godwit.replan.estimate import UNKNOWN, JoinCount, counted, estimate, links
from godwit.replan.forecast import DEFAULTS
from godwit.replan.join_tree import JoinTree, parse, trees
from godwit.replan.load import BoxLoad, loads, window
from godwit.replan.optimiser import MeasuredQuery, best_orders
from tests.replan.queries import FIXTURES, STREAMS, compiled, load

CHAIN = (("a", "b"), ("b", "c"), ("c", "d"))
TRUTH = BoxLoad(dict.fromkeys("abcd", 2000.0), {CHAIN[0]: 2e-4, CHAIN[1]: 5e-5, CHAIN[2]: 1e-5})
ORDER = parse("a JOIN b JOIN c JOIN d")
SECONDS = 10


def _counted(tree: JoinTree, truth: BoxLoad) -> list[JoinCount]:
    return [
        JoinCount(j.tree, round(j.left_rate * SECONDS), round(j.right_rate * SECONDS), round(j.rate * SECONDS), 20)
        for j in loads(tree, truth, window(10))
    ]


def _leaves(truth: BoxLoad) -> dict[str, int]:
    return {alias: round(rate * SECONDS) for alias, rate in truth.rates.items()}


def test_a_chain_is_found_again() -> None:
    for tree in trees("abcd", lambda x, y: any((p in x and q in y) or (q in x and p in y) for p, q in CHAIN)):
        found = estimate(None, _leaves(TRUTH), _counted(tree, TRUTH), CHAIN, SECONDS)
        assert found.rates == TRUTH.rates
        for pair, share in TRUTH.sigma.items():
            assert found.sigma[pair] == pytest.approx(share, rel=0.01)


def test_what_is_not_shown_stays_as_it_was() -> None:
    first = estimate(None, _leaves(TRUTH), _counted(ORDER, TRUTH), [*CHAIN, ("x", "y")], SECONDS)
    assert first.sigma["x", "y"] == UNKNOWN
    again = estimate(first, _leaves(TRUTH), [], CHAIN, SECONDS)
    assert again.sigma == {pair: first.sigma[pair] for pair in CHAIN}


def test_counts_are_smoothed() -> None:
    odd = BoxLoad(TRUTH.rates, {pair: share * 3 for pair, share in TRUTH.sigma.items()})
    known = estimate(None, _leaves(TRUTH), _counted(ORDER, TRUTH), CHAIN, SECONDS)
    found = estimate(known, _leaves(odd), _counted(ORDER, odd), CHAIN, SECONDS, weight=0.5)
    assert found.sigma["a", "b"] == pytest.approx(2 * TRUTH.sigma["a", "b"], rel=0.01)


def test_nothing_made_is_rare_but_not_never() -> None:
    found = estimate(None, _leaves(TRUTH), [JoinCount(parse("a JOIN b"), 20_000, 20_000, 0, 20)], CHAIN, SECONDS)
    assert 0 < found.sigma["a", "b"] < 1e-8


def test_counts_lead_to_the_best_order() -> None:
    found = estimate(None, _leaves(TRUTH), _counted(ORDER, TRUTH), CHAIN, SECONDS)
    q = QueryId("q")
    orders = tuple(trees("abcd", lambda x, y: any((p in x and s in y) or (s in x and p in y) for p, s in CHAIN)))
    best = best_orders({q: MeasuredQuery(q, ORDER, orders, found, window(10))}, DEFAULTS)[q]
    assert frozenset("cd") in {node.covers for node in best.inner}
    assert frozenset("ab") not in {node.covers for node in best.inner}


def test_links_of_a_query() -> None:
    query = compiled(load(FIXTURES / "good" / "common_sub_plan.yaml")["sql"])
    assert links(JoinBox.of(query.shape.plan, STREAMS)) == {("a", "b"), ("b", "c"), ("b", "d"), ("c", "d")}


def test_counts_of_operators_become_counts_of_joins() -> None:
    query = compiled(load(FIXTURES / "good" / "figure_5.yaml")["sql"])
    box = JoinBox.of(query.shape.plan, STREAMS)
    first, second, third = box.joins
    taken = {(first, 0): 10, (first, 1): 20, (second, 0): 4, (second, 1): 30, (third, 0): 2, (third, 1): 40}
    leaves, joins = counted(box, taken, 1)
    assert leaves == {"a": 10, "b": 20, "c": 30, "d": 40}
    assert [(j.left, j.right, j.made) for j in joins] == [(10, 20, 4), (4, 30, 2), (2, 40, 1)]
    assert len(counted(box, taken, None)[1]) == 2  # what the topmost makes is not known
