"""A control plane lets Python search for garbage less often, unless the program has said how often."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from godwit.process.collector import SELDOM, USUAL, search_seldom


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("chosen", "after"), [(USUAL, SELDOM), ((0, 10, 10), (0, 10, 10)), ((5000, 5, 5), (5000, 5, 5))]
)
def test_what_the_program_has_chosen_stays(chosen: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    search_seldom()
    assert gc.get_threshold() == after
