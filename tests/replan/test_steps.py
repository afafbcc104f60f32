"""Strategies as lists of steps, and their refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.errors import ConfigError
from godwit.model.signature import StateKey
from godwit.replan.matching import Matched, Recompute, StateMatch
from godwit.replan.steps import BoxChange, ComputeStates, possible, steps

K = [StateKey(f"s{i}") for i in range(6)]
FIGURE_5 = StateMatch((Matched(K[0], K[1], ("a",)),), (Recompute(K[2], 3, K[0], K[0], ("b", "c")),), (K[4],))
BOX = BoxChange(FIGURE_5)


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


def test_background_is_algorithm_2_with_its_states_made_before() -> None:
    assert _names("background") == ["ComputeStates", *_names("moving-state")]
    first, *rest = steps("background", BOX)
    assert first == ComputeStates(ahead=True)
    assert ComputeStates() in rest


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
