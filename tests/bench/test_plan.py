"""What the plan bench claims: the optimiser near the oracle, forecasts near the model, every strategy equal."""

from __future__ import annotations

import pytest
from bench.plan import model, swapping
from bench.plan.settings import LOW, NEW, OLD, Setting, set1, set3

from godwit.replan.forecast import moving_state_features
from godwit.sim.join_box import SimBox


def test_the_optimiser_reaches_nine_tenths_of_the_best_order() -> None:
    """Selectivities swap every 60 s; migrations cost throughput, too."""
    found = swapping.run(3, seconds=480)
    assert found["throughput"] >= 0.9
    assert found["intermediate rows"] >= 0.9
    assert found["work of the best fixed order"] > 1
    assert found["changes"] <= 480 // 60


@pytest.mark.parametrize("setting", [set1(4000), set1(8000), set3(500), set3(1000)])
def test_forecast_counts_what_moving_state_does(setting: Setting) -> None:
    """Pairs looked at and rows made, on average over seeds, within 25 %."""
    pairs = made = 0.0
    for seed in range(8):
        rows = [r for r in setting.arrivals(2 * setting.window_ms, seed) if r.time > setting.window_ms]
        box = SimBox(NEW, setting.window_ms)
        box.take_over({frozenset((a,)): [(r,) for r in rows if r.alias == a] for a in OLD.aliases})
        pairs += box.probed / 8
        made += box.intermediate / 8
    features = moving_state_features(model.case(setting))
    assert features.pairs == pytest.approx(pairs, rel=0.25)
    assert features.inserted == pytest.approx(made, rel=0.25)


def test_every_run_of_a_figure_says_the_same() -> None:
    runs = model.over_time(LOW, 16_000)
    assert {run["oracle"] for run in runs.values()} == {"equal"}
    assert max(runs["new"]["kept"]) < max(runs["old"]["kept"])
    assert runs["background"]["probed"] < runs["parallel-track"]["probed"]
