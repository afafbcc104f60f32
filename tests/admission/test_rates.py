"""The cost model: order-free streams, canonical signatures, observed rates, and clear refusals of bad queries."""

from __future__ import annotations

import pytest

from godwit.admission.model import BaseStream, Catalog, Host, HostNetwork
from godwit.admission.rates import Base, JoinSpec, Predicate, RateModel, RateQuery, Unary, declare, expand, signature_of
from godwit.errors import AdmissionError

A, B, C, D = (Base(name) for name in "abcd")


def catalog_of(costs: RateModel, rate: float = 10.0) -> Catalog:
    catalog, network = Catalog(), HostNetwork.of([Host("h", 1, 1, 1)])
    for name in "abcd":
        declare(catalog, network, BaseStream(name, rate, ("h",)), costs)
    return catalog


@pytest.mark.parametrize(("ways", "streams", "operators"), [(2, 3, 1), (3, 7, 6), (4, 15, 25)])
def test_all_subsets_and_splits(ways: int, streams: int, operators: int) -> None:
    costs = RateModel()
    query = expand(catalog_of(costs), RateQuery("q", JoinSpec((A, B, C, D)[:ways])), costs)
    assert (len(query.streams), len(query.operators)) == (streams, operators)


def test_order_of_inputs_does_not_matter() -> None:
    costs = RateModel()
    catalog = catalog_of(costs)
    one = expand(catalog, RateQuery("one", JoinSpec((A, B, C))), costs)
    other = expand(catalog, RateQuery("other", JoinSpec((C, A, B))), costs)
    assert one.result == other.result
    assert set(one.operators) == set(other.operators)


def test_predicates_forbid_cross_products_and_name_the_stream() -> None:
    costs = RateModel()
    catalog = catalog_of(costs)
    chain = JoinSpec((A, B, C), (Predicate(0, 1, "a=b", 0.01), Predicate(1, 2, "b=c", 0.04)))
    query = expand(catalog, RateQuery("q", chain), costs)
    names = {catalog.streams[s].signature for s in query.streams}
    assert names == {"a", "b", "c", "(a * b)[a=b]", "(b * c)[b=c]", "(a * b * c)[a=b and b=c]"}
    assert signature_of(chain) == "(a * b * c)[a=b and b=c]"
    assert catalog.streams[query.result].rate == pytest.approx(30 * 0.02)


def test_costs_are_linear_in_the_input_rates() -> None:
    costs = RateModel(shares={"(a * b)": 0.5})
    catalog = catalog_of(costs)
    spec = RateQuery(
        "q", Unary(JoinSpec((A, B), window=4.0), "count((a * b))", 0.1, cost=2.0, kind="aggregate", window=3)
    )
    query = expand(catalog, spec, costs)
    joined, counted = (catalog.operators[o] for o in query.operators)
    assert (joined.cpu, joined.state) == (20.0, 80.0)
    assert (counted.cpu, counted.state, counted.kind) == (20.0, 30.0, "aggregate")
    assert catalog.streams[query.result].rate == pytest.approx(1.0)


def test_observed_rates_replace_estimates_and_flow_on() -> None:
    costs = RateModel(shares={"(a * b)": 0.5})
    costs.observe({"a": 30.0, "(a * b)": 4.0})
    catalog = catalog_of(costs)
    query = expand(catalog, RateQuery("q", Unary(JoinSpec((A, B)), "f", 0.5)), costs)
    assert catalog.operators[query.operators[0]].cpu == 40.0
    assert catalog.streams[query.result].rate == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (JoinSpec((A, Base("nobody"))), "no base stream"),
        (JoinSpec((A, A)), "itself"),
        (JoinSpec((A,)), "joins 1 inputs"),
        (JoinSpec((A, B, C), (Predicate(0, 1, "a=b"),)), "do not connect"),
    ],
)
def test_bad_queries_say_what_to_do(node: JoinSpec, words: str) -> None:
    costs = RateModel()
    with pytest.raises(AdmissionError, match=words):
        expand(catalog_of(costs), RateQuery("q", node), costs)


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_bad_rates_are_refused(rate: float) -> None:
    with pytest.raises(AdmissionError, match="rate"):
        declare(Catalog(), HostNetwork.of([]), BaseStream("s", rate, ()), RateModel())
    with pytest.raises(AdmissionError, match="rate"):
        RateModel().observe({"s": rate})
