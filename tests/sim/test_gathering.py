"""Rows gather until somebody waits for them. At rest they are read all the same: nothing may come of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from godwit.protocol.gathering import Gathering
from godwit.protocol.kernel import RegionKernel
from godwit.sim.drawn_gathering import draw_gathering
from godwit.sim.run import play, run, story
from godwit.sim.schedule import Schedule, draw, draw_keys, draw_outer_keys, draw_plans
from tests.sim.broken import BROKEN_GATHERING

SCHEDULES = int(os.environ.get("GODWIT_SCHEDULES", "10000")) // 10


@pytest.mark.timeout(900)
def test_nothing_comes_of_rows_that_gather() -> None:
    bad = run(SCHEDULES, drawing=draw_gathering)
    assert not bad, f"{len(bad)} of {SCHEDULES} schedules failed; the first:\n{story(draw_gathering(bad[0]))}"


@pytest.mark.parametrize("drawing", [draw, draw_keys, draw_outer_keys, draw_plans])
def test_whatever_else_happens(drawing: Callable[[int], Schedule]) -> None:
    for seed in range(30):
        assert play(replace(drawing(seed), gathers=True)) == [], seed


def test_rows_do_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would say nothing."""
    waited: list[bool] = []
    asked = Gathering.until

    def until(self: Gathering[object], kernel: RegionKernel, now: float) -> float | None:
        found = asked(self, kernel, now)
        waited.append(found is not None)
        return found

    monkeypatch.setattr(Gathering, "until", until)
    for seed in range(20):
        play(draw_gathering(seed))
    assert sum(waited) > 50


@pytest.mark.parametrize("broken", BROKEN_GATHERING)
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, seed = BROKEN_GATHERING[broken]
    assert play(draw_gathering(seed)) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(draw_gathering(seed))
