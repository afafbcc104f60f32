"""Schedules in which equal queries come and go all the time: what they have in common is executed once, and right."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from godwit.model import taps
from godwit.model.plan import CLASS
from godwit.sim.run import play
from godwit.sim.schedule import Action, Down, Put, Schedule, Sight, SubmitQuery, Tick, WithdrawQuery, draw, draw_outer
from godwit.sim.step import _Step
from godwit.sim.world import World

SCHEDULES = int(os.environ.get("GODWIT_SCHEDULES", "10000")) // 40


def sharing(seed: int, cuts: float = 0.0, drawing: Callable[[int], Schedule] = draw) -> Schedule:
    """A random schedule whose queries are all like its first one, or differ from it in a literal. `cuts`: how many end
    at their lowest join or window, as those do that are read by queries of other shapes."""
    drawn, rng = drawing(seed), Random(seed)
    first = next(action for action in drawn.actions if isinstance(action, SubmitQuery))
    kind = "nested" if cuts and first.kind == "tumbling" else first.kind
    actions: list[Action] = []
    names = [first.name]
    for action in drawn.actions:
        if isinstance(action, SubmitQuery) and action is not first:
            continue
        actions.append(replace(action, kind=kind) if action is first else action)  # type: ignore[call-arg]
        if rng.random() < 0.12:
            names.append(f"r{len(names)}")
            cut = rng.random() < cuts
            actions.append(SubmitQuery(names[-1], kind, rng.choice([first.over, first.over, 0]), cut))
        elif rng.random() < 0.06:
            actions.append(WithdrawQuery(rng.choice(names)))
    return replace(drawn, actions=tuple(actions), shares=True)


def failing(seeds: range, cuts: float = 0.0, drawing: Callable[[int], Schedule] = draw) -> list[int]:
    return [seed for seed in seeds if play(sharing(seed, cuts, drawing))]


def test_equal_queries_that_come_and_go() -> None:
    bad = failing(range(SCHEDULES))
    assert bad == [], "\n".join(play(sharing(bad[0])))


def test_queries_that_are_cut_for_others_come_and_go() -> None:
    bad = failing(range(SCHEDULES), cuts=0.5)
    assert bad == [], "\n".join(play(sharing(bad[0], cuts=0.5)))


@pytest.mark.parametrize("cuts", [0.0, 0.5])
def test_outer_semi_and_anti_joins_that_come_and_go(cuts: float) -> None:
    """Whether a row has a partner depends on when its reader began."""
    bad = failing(range(SCHEDULES // 2), cuts, draw_outer)
    assert bad == [], "\n".join(play(sharing(bad[0], cuts, draw_outer)))


def test_who_was_withdrawn_goes_on_as_far_as_others_tap() -> None:
    """One taps the window, another is cut at the join below it: the rows of the join go on to the window."""
    assert play(sharing(399, cuts=0.5)) == []


def test_state_follows_a_shared_operator_while_the_query_it_is_named_after_is_parked() -> None:
    """q1 ends at the lower join, which has a place; the upper one, of q0 alone, has none."""
    actions = (
        SubmitQuery("q0", "counted_chain", 0),
        SubmitQuery("q1", "counted_chain", 0, cut=True),
        *(Tick(region, Sight()) for region in ("east", "west")),
        Down("cloud"),
        Put("q0", 3, "hb"),
    )
    assert play(Schedule(0, "bottom-up", "holistic-concurrent", actions, shares=True)) == []


def test_schedules_share() -> None:
    """Most of them do; a session is never tapped."""
    tapped = 0
    for seed in range(60):
        world = World(sharing(seed))
        for action in world.schedule.actions:
            world.play(action)
        tapped += any(query.taps for query in world.deployment.queries.values())
    assert tapped > 15


def _everybody(self: _Step, index: int, rows: list[Any]) -> list[Any]:
    return _for_readers(self, index, [{**row, CLASS: 2**40} for row in rows])


_for_readers = _Step._for_readers


@pytest.mark.parametrize(
    ("where", "name", "broken"),
    [
        (_Step, "_for_readers", _everybody),
        (taps, "can_be_tapped", lambda plan, index: index < len(plan.operators) - 1 and index > 0),
    ],
    ids=["class ignored", "anything is tapped"],
)
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, broken: Any) -> None:
    monkeypatch.setattr(where, name, broken)
    assert any(play(sharing(seed)) for seed in range(400))
