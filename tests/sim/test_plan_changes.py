"""Random schedules that change plans, by every strategy, among hand-overs, crashes and losses; judged by the oracle."""

from __future__ import annotations

import os

import pytest

from godwit.sim.run import play, run, story
from godwit.sim.schedule import draw_plans
from tests.sim.broken_plans import BROKEN_PLANS

SCHEDULES = int(os.environ.get("GODWIT_SCHEDULES", "10000")) // 40


@pytest.mark.timeout(900)
def test_every_schedule_ends_with_the_oracles_answer() -> None:
    bad = run(SCHEDULES, chunk=50, drawing=draw_plans)
    assert not bad, f"{len(bad)} of {SCHEDULES} schedules failed; the first:\n{story(draw_plans(bad[0]))}"


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_ten_thousand_schedules() -> None:
    bad = run(10_000, first=1_000, drawing=draw_plans)
    assert not bad, f"{len(bad)} schedules failed; the first:\n{story(draw_plans(bad[0]))}"


@pytest.mark.parametrize("broken", BROKEN_PLANS)
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, schedule = BROKEN_PLANS[broken]
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)
