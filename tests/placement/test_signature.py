"""Signatures: any size, both ways, every plan once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import PlacementError
from godwit.placement.problem.signature import shuffled, split, to_plan


def to_signature(plan, actions):
    return sum(digit * actions**place for place, digit in enumerate(reversed(plan)))


def test_the_example_of_the_paper():
    assert to_plan(164, 4, 4) == (2, 2, 1, 0)
    assert to_signature((2, 2, 1, 0), 4) == 164


@given(st.data(), st.integers(1, 2047), st.integers(1, 11))
def test_both_ways_without_overflow(data, actions, operators):
    number = data.draw(st.integers(0, actions**operators - 1))
    assert to_signature(to_plan(number, actions, operators), actions) == number


def test_the_largest_signature():
    last = 2047**11 - 1
    assert last > 2**64
    assert to_plan(last, 2047, 11) == (2046,) * 11
    assert to_plan(last - 1, 2047, 11) == (2046,) * 10 + (2045,)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 70))
def test_split_covers_a_range_once(start, length, size):
    seen = [n for at, count in split(start, start + length, size) for n in range(at, at + count)]
    assert seen == list(range(start, start + length))


@given(st.integers(1, 400), st.integers(0, 50))
def test_shuffled_is_a_permutation(count, seed):
    assert sorted(shuffled(count, seed)) == list(range(count))


@pytest.mark.parametrize(("number", "actions", "operators"), [(-1, 3, 2), (9, 3, 2)])
def test_out_of_range(number, actions, operators):
    with pytest.raises(PlacementError, match="out of range"):
        to_plan(number, actions, operators)
