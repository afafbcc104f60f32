"""Signatures stay what they are: state and shapes are found again by them."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass, replace

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model import signature
from godwit.model.codec import decode, encode
from godwit.model.plan import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Named,
    Parameter,
    Partial,
    Plan,
    Query,
    Scan,
    Shape,
    Sink,
    Union,
    Window,
)
from godwit.model.signature import StateKey, canonical, digest

WINDOW = Window("a__ts", 10_000_000, 10_000_000)
CALLS = (AggregateCall("n", "count", None),)


def counting(threshold: str = "__p0", parameters: tuple[Parameter, ...] = (Parameter("__p0", "int"),)) -> Shape:
    operators = (
        Scan(StreamId("passengers"), "a", ("train", "load", "ts")),
        Filter((0,), f"a__load > {threshold}"),
        Partial((1,), WINDOW, (Named("train", "a__train"),), CALLS),
        Aggregate((2,), WINDOW, ("train",), CALLS),
        Sink((3,), ("train", "n")),
    )
    return Shape(Plan(operators), parameters)


def joining() -> Shape:
    scans = tuple(Scan(StreamId(name), name, ("k", "ts")) for name in ("a", "b"))
    join = Join((0, 1), (("a__k", "b__k"),), "a__ts", "b__ts", 0, 2_000_000)
    return Shape(Plan((*scans, join, Sink((2,), ("a__k",)))))


def test_known_signatures() -> None:
    """A failure here means: running fleets would not find their state after an upgrade."""
    assert counting().key == "b2ff8ccd5cb8"
    assert counting().signatures[3] == "70d43eea54cec7a6"
    assert joining().key == "470ef33f56d1"
    assert joining().signatures[2] == "4bd741e80159e4af"


def test_a_new_field_with_a_default_renames_nothing() -> None:
    old = make_dataclass("Node", [("inputs", tuple), ("lag_us", int, 0)], frozen=True)
    new = make_dataclass("Node", [("inputs", tuple), ("lag_us", int, 0), ("outer", bool, False)], frozen=True)
    assert digest(old((1,), 5)) == digest(new((1,), 5))
    assert digest(new((1,), 5, True)) != digest(new((1,), 5))


def test_what_is_above_an_operator_or_its_number_does_not_matter() -> None:
    shape = counting()
    longer = (
        Scan(StreamId("other"), "z", ("ts",)),
        *(op.reading(tuple(i + 1 for i in op.inputs)) for op in shape.plan.operators),
    )
    assert Shape(Plan(longer), shape.parameters).signatures[1:] == shape.signatures


@pytest.mark.parametrize(
    "other",
    [
        counting("__p0 + 1"),
        counting(parameters=(Parameter("__p0", "double"),)),
        Shape(Plan((replace(counting().plan.operators[0], columns=("train", "ts")), *counting().plan.operators[1:]))),
    ],
)
def test_what_is_below_an_operator_matters(other: Shape) -> None:
    shape = Shape(counting().plan) if not other.parameters else counting()
    if not other.parameters:
        shape, other = (Shape(s.plan, (Parameter("__p0", "int"),)) for s in (shape, other))
    assert other.signatures[3] != shape.signatures[3]


def test_operators_that_are_alike_have_their_own_state() -> None:
    one = counting().plan.operators[:4]
    twice = (*one, *(op.reading(tuple(i + 4 for i in op.inputs)) for op in one), Union((3, 7)), Sink((8,), ("n",)))
    signatures = Shape(Plan(twice), counting().parameters).signatures
    assert signatures[7] == f"{signatures[3]}~1"
    assert len(set(signatures)) == len(signatures)


def test_values_in_place_of_literals() -> None:
    operators = counting().plan.operators
    assert signature.of_values(operators, ("5",)) != signature.of_values(operators, ("6",))
    lifted, written = counting().plan.operators, counting("(5)", ()).plan.operators
    assert signature.of_values(lifted, ("5",)) == signature.of_values(written, ())


def test_a_state_key_is_read_as_it_was_written() -> None:
    for key in (StateKey("ab12", 1), StateKey("ab12~3")):
        assert StateKey.parse(str(key)) == key


def test_canonical_forms_have_no_order_of_their_own() -> None:
    @dataclass(frozen=True)
    class Bag:
        names: frozenset[str]
        counts: dict[QueryId, int]

    one = Bag(frozenset("abc"), {QueryId("x"): 1, QueryId("y"): 2})
    other = Bag(frozenset("cba"), {QueryId("y"): 2, QueryId("x"): 1})
    assert canonical(one) == canonical(other)


def test_queries_of_one_shape_have_one_object_for_it():
    """However many there are, and though each is read from a log on its own."""
    first, second = (Query(QueryId(name), "", counting(), (name,)) for name in ("1", "2"))
    assert first.shape is second.shape
    assert replace(first, parameters=("3",)).shape is first.shape
    assert decode(encode(first)).shape is first.shape
    assert Query(QueryId("other"), "", counting("7", ())).shape is not first.shape
