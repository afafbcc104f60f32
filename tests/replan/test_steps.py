"""Strategies as lists of steps, their refusals, and changes that queue, fail and end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.errors import ConfigError, DeploymentError
from godwit.ids import QueryId
from godwit.model.signature import StateKey
from godwit.replan.join_tree import parse
from godwit.replan.matching import Matched, Recompute, StateMatch
from godwit.replan.plan_changes import DropPlan, PlanChanges
from godwit.replan.steps import PLAN_STRATEGIES, BoxChange, possible, steps

K = [StateKey(f"s{i}") for i in range(6)]
FIGURE_5 = StateMatch((Matched(K[0], K[1], ("a",)),), (Recompute(K[2], 3, K[0], K[0], ("b", "c")),), (K[4],))
BOX = BoxChange(FIGURE_5)
Q = QueryId("q")
ORDER = parse("(b JOIN c) JOIN d JOIN a")


def _names(strategy: str, change: BoxChange = BOX) -> list[str]:
    return [type(step).__name__ for step in steps(strategy, change)]


def test_algorithm_2() -> None:
    assert _names("moving-state") == [
        "HoldInputs",
        "DrainInputs",
        "ShareStates",
        "ComputeStates",
        "SwitchPlan",
        "ReleaseInputs",
        "AwaitFirstSteps",
        "RetirePlan",
    ]


def test_algorithm_3() -> None:
    rest = ["SwitchPlan", "ReleaseResults", "AwaitFirstSteps", "RetirePlan"]
    assert _names("parallel-track") == ["RunBoth", "AwaitOldRows", *rest]
    passed_on = BoxChange(FIGURE_5, held=False)
    assert _names("parallel-track", passed_on) == ["RunBoth", "AwaitOldRows", "SwitchPlan", *rest[2:]]


def test_background_holds_nothing() -> None:
    names = _names("background")
    assert names[:4] == ["ShareStates", "ComputeStates", "CatchUp", "SwitchPlan"]
    assert not {"HoldInputs", "RunBoth"} & set(names)


def test_one_epoch_where_nothing_is_kept() -> None:
    assert _names("stateless-order", BoxChange(FIGURE_5, probing=True)) == ["SetOrder"]


def test_pausing_is_refused_for_the_reason_of_the_paper() -> None:
    with pytest.raises(ConfigError, match="only when new rows come, and pausing holds those back") as caught:
        steps("pause-drain-resume", BOX)
    assert "remedy: use 'moving-state' or 'background', or let windows run out" in str(caught.value)
    assert _names("pause-drain-resume", BoxChange(FIGURE_5, run_out=True))[:3] == [
        "RunBoth",
        "AwaitOldRows",
        "SwitchPlan",
    ]
    assert _names("pause-drain-resume", BoxChange(StateMatch((), (), ())))[:2] == ["HoldInputs", "DrainInputs"]


def test_unknown_strategy() -> None:
    with pytest.raises(ConfigError, match=r"there is no strategy 'teleport'.*\n.*choose one of auto, pause-drain"):
        steps("teleport", BOX)


def test_changed_sql_cannot_run_side_by_side() -> None:
    new_stream = BoxChange(StateMatch((), (), (), empty=(K[0],)), equivalent=False)
    assert possible(replace(new_stream, run_out=True)) == ("moving-state", "background")
    assert possible(BoxChange(FIGURE_5, probing=True, run_out=True)) == ("pause-drain-resume", "stateless-order")


def _carried_out(changes: PlanChanges, strategy: str, fail_at: int | None = None) -> list[str]:
    one = changes.ask(Q, ORDER, strategy, BoxChange(FIGURE_5, run_out=True, probing=strategy == "stateless-order"))
    todo, seen = list(changes.next()), []
    while todo:
        instruction = todo.pop(0)
        seen.append(type(instruction.step).__name__)
        failing = fail_at == len(seen) - 1
        todo += changes.failed(one.number, "no room") if failing else changes.done(one.number)
    return seen


@pytest.mark.parametrize("strategy", PLAN_STRATEGIES)
def test_a_change_ends(strategy: str) -> None:
    changes = PlanChanges()
    _carried_out(changes, strategy)
    assert [one.state for one in changes.ended] == ["done"]
    assert not changes.active
    assert not changes.queued


@pytest.mark.parametrize("strategy", [s for s in PLAN_STRATEGIES if s != "stateless-order"])
def test_a_failure_at_every_step_leaves_the_old_plan(strategy: str) -> None:
    count = len(steps(strategy, BoxChange(FIGURE_5, run_out=True)))
    for at in range(count - 1):
        changes = PlanChanges()
        seen = _carried_out(changes, strategy, fail_at=at)
        assert seen[-1] == "DropPlan"
        assert [(one.state, one.reason) for one in changes.ended] == [("reverted", "no room")]
    with pytest.raises(DeploymentError, match="ended the old plan"):
        _carried_out(PlanChanges(), strategy, fail_at=count - 1)


def test_the_second_change_of_a_query_waits() -> None:
    changes = PlanChanges()
    first = changes.ask(Q, ORDER, "background", BOX)
    second = changes.ask(Q, parse("a JOIN b JOIN c JOIN d"), "background", BOX)
    other = changes.ask(QueryId("r"), ORDER, "background", BOX)
    assert second.reason == "change 1 of q comes first"
    assert [i.number for i in changes.next()] == [first.number, other.number]
    assert list(changes.next()) == []
    begun = list(changes.failed(first.number, "given up"))
    assert [i.step for i in begun] == [DropPlan()]
    assert [i.number for i in changes.done(first.number)] == [second.number]


def test_inputs_wait_only_while_they_are_held() -> None:
    changes = PlanChanges()
    one = changes.ask(Q, ORDER, "moving-state", BOX)
    list(changes.next())
    held = []
    while changes.active:
        held.append(changes.active[one.number].holding)
        list(changes.done(one.number))
    assert held == [True, True, True, True, True, True, False, False]
