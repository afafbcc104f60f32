"""The paper's measures, on latencies that are known; and every question has an operator whose keys can be named."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from bench.falcon.fig8 import cells
from bench.falcon.measures import Latencies, Steady, disruption_ms, jitter_ms
from bench.falcon.play import Turn, _measured
from bench.falcon.questions import QUESTIONS
from bench.falcon.sending import EVERY, Cut, Played, latencies
from bench.falcon.targets import rows

from godwit.migration.phases import KEY_STRATEGIES


def seen(*pairs: tuple[float, float]) -> Latencies:
    pushed, answered = zip(*pairs, strict=True)
    return Latencies(np.asarray(pushed), np.asarray(answered))


def test_disruption_is_the_time_in_which_any_result_was_overdue() -> None:
    calm = seen((0.0, 0.1), (1.0, 1.1), (2.0, 2.1))
    assert disruption_ms(calm, 200.0) == 0.0
    # Due at 1.2 and come at 1.7; due at 1.4 and come at 1.8: overdue from 1.2 to 1.8. And once more, for 0.1 s.
    assert disruption_ms(seen((1.0, 1.7), (1.2, 1.8), (1.5, 1.6), (5.0, 5.3)), 200.0) == pytest.approx(700.0)


def test_jitter_is_how_far_the_peak_lies_above_the_mean() -> None:
    steady = Steady.of(seen(*((t, t + 0.1) for t in range(50))))
    assert steady.mean == pytest.approx(100.0)
    assert jitter_ms(seen(*((t, t + 0.4) for t in range(10))), steady.mean) == pytest.approx(300.0)
    assert jitter_ms(Latencies(np.array([]), np.array([])), 1.0) is None


def test_a_total_is_as_late_as_the_oldest_row_that_it_answers_first() -> None:
    played = Played(0.0, called=[1.0, 2.0, 3.0], counts={"v0": [1, 3, 4]})
    played.heard = [(1.5, [{"key": "v0", "n": 1}]), (4.0, [{"key": "v0", "n": 4}]), (5.0, [{"key": "v0", "n": 4}])]
    found = latencies(QUESTIONS["tm"], played)
    assert list(found.pushed) == [1.0, 2.0]
    assert list(found.ms) == pytest.approx([500.0, 2000.0])


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_keys_that_can_migrate(name: str) -> None:
    assert QUESTIONS[name].operators
    assert len(QUESTIONS[name].keys) >= 10


def test_figure_8_has_every_strategy_of_every_workload() -> None:
    found = {(cell.workload, strategy) for cell in cells(short=True) for strategy in cell.strategies}
    assert found >= {(workload, strategy) for workload in QUESTIONS for strategy in (*KEY_STRATEGIES, "none")}


def test_steady_is_what_was_pushed_in_the_pauses_and_a_turn_what_was_answered_in_it() -> None:
    """Rows answered after 100 ms; those pushed within the one migration after 600 ms."""
    played = Played(0.0, called=[k * EVERY for k in range(400)])
    late = {k for k in range(400) if 10.0 <= k * EVERY < 10.5}
    answered = [(k * EVERY + (0.6 if k in late else 0.1), k) for k in range(400)]
    start = dt.datetime.fromtimestamp(0, dt.UTC)
    played.heard = [(at, [{"at": start + dt.timedelta(seconds=k * EVERY)}]) for at, k in sorted(answered)]
    turns = [Turn("none", "edge0", 5.0, 5.0, 5.3), Turn("falcon", "edge0", 10.0, 10.0, 10.5)]
    found = _measured(QUESTIONS["nq6"], Cut(calm_s=3.0), played, turns)
    assert found["none"]["disruption_ms"] == 0.0
    assert found["falcon"]["steady"]["mean_ms"] == pytest.approx(100.0, abs=0.1)
    assert found["falcon"]["disruption_ms"] == pytest.approx(950.0, abs=1.0)  # from 10.1, due, to 11.05
    assert found["falcon"]["jitter_ms"] == pytest.approx(500.0, abs=0.1)


def test_targets_are_met_by_what_was_measured_alone() -> None:
    def cell(strategy: str, disruption: float, jitter: float) -> dict[str, object]:
        where = {"workload": "nq7", "strategy": strategy, "x": "nq7"}
        return {"cell": where, "disruption_ms": disruption, "jitter_ms": jitter}

    good = [cell("none", 0.0, 1.0), cell("delta", 0.0, 4.0), cell("full-restart", 300.0, 90.0)]
    assert [row[-1] for row in rows({"fig8": good})] == ["yes", "yes"]
    bad = [cell("delta", 3.0, 4.0), cell("full-restart", 300.0, 70.0), cell("on-demand", 14.0, 30.0)]
    assert [row[-1] for row in rows({"fig8": bad})] == ["no", "no", "no"]
