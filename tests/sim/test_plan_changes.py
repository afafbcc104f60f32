"""Random schedules that change plans, by every strategy, among hand-overs, crashes and losses; judged by the oracle."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from godwit.control import plan_versions
from godwit.control.events import PlanChanged
from godwit.ids import QueryId
from godwit.sim.run import play, run, story
from godwit.sim.schedule import (
    ChangePlan,
    Deliver,
    Put,
    Schedule,
    Send,
    Sight,
    SubmitQuery,
    Tick,
    Timeout,
    draw_ahead,
    draw_divided_plans,
    draw_plans,
    draw_shared_plans,
)
from godwit.sim.world import World
from tests.sim.broken_plans import BROKEN_PLANS, ROUND
from tests.sim.broken_shared_plans import BROKEN_SHARED

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


@pytest.mark.timeout(900)
@pytest.mark.parametrize("drawing", [draw_shared_plans, draw_divided_plans, draw_ahead])
def test_queries_that_share_or_have_divided_keys_and_states_made_ahead(drawing: Callable[[int], Schedule]) -> None:
    bad = run(SCHEDULES // 2, chunk=50, drawing=drawing)
    assert not bad, f"{len(bad)} of {SCHEDULES} schedules failed; the first:\n{story(drawing(bad[0]))}"


def test_versions_end_and_begin_at_the_epoch_of_their_own_stage() -> None:
    """The query is stopped and deployed for a hand placement in the epochs before, of the same batch."""
    actions = (
        SubmitQuery("q0", "counted_chain", 0),
        Tick("west", Sight((1, 2), control=False)),
        Put("q0", 3, "hb"),
        ChangePlan("q0", "(a JOIN c) JOIN b", "background"),
        Send("d3", "right", ((26, 0, 0), (26, 1, 2))),
        Deliver(3),
        Tick("cloud", Sight((1, 0), sources=1)),
        Send("d2", "left", ((22, 0, 0), (21, 1, 3))),
        Deliver(1),
        Tick("east", Sight((0, 2), control=False)),
        Deliver(1),
        Timeout(),
    )
    schedule = Schedule(0, "top-down", "holistic-concurrent", actions)
    assert not play(schedule), story(schedule)


def test_no_version_ends_while_somebody_taps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever began to since the change was worked out."""
    world = World(Schedule(0, "top-down", "incremental", (), shares=True))
    for action in (SubmitQuery("q0", "chain", 0), *ROUND, SubmitQuery("q1", "chain", 0), *ROUND):
        world.play(action)
    first, second = world.deployment.queries.values()
    assert first.id in second.taps.values()
    alone = PlanChanged(first.id, replace(first, id=QueryId("q0~1"), inherits=first.id))
    assert not world.plans._ask(alone)
    monkeypatch.setattr(plan_versions, "_is_whole", lambda *of: True)
    assert world.plans._ask(alone)


@pytest.mark.parametrize("broken", {**BROKEN_PLANS, **BROKEN_SHARED})
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    owner, name, rule, schedule = {**BROKEN_PLANS, **BROKEN_SHARED}[broken]
    assert play(schedule) == []
    monkeypatch.setattr(owner, name, rule)
    assert play(schedule)
