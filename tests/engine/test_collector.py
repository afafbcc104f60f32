"""Python searches for garbage less often, unless the program has said how often; Java's objects go nevertheless."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from godwit.engine.collector import FEW, SELDOM, USUAL, held, search_by_java, search_seldom


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


def test_objects_of_javas_in_cycles_are_released(spark: SparkSession) -> None:
    gc.set_threshold(*USUAL)
    search_by_java()
    assert gc.get_threshold() == SELDOM
    before = held()
    grown = max(FEW, before // 4)  # the last search may come in the middle of these: up to that many are left
    for _ in range(3 * grown):
        cycle: list[object] = [cast("Any", spark._jvm).java.lang.Object()]
        cycle.append(cycle)
    until = time.monotonic() + 20
    while held() > before + grown and time.monotonic() < until:
        time.sleep(0.05)
    assert held() <= before + grown
