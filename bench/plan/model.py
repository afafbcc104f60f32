"""The paper's figures on the row-by-row model: its joins are the paper's nested loops, its clock is this machine's.

Moving state is timed (states are computed while nothing else runs); parallel track is as long as its rows' times say.
Forecasts use constants fitted to half of the timed changes and are judged on the other half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from bench.plan.settings import HIGH, LOW, NEW, OLD, Setting, set1, set2, set3
from godwit.replan.forecast import ChangeCase, CostConstants, fit, moving_state_features, track_length
from godwit.replan.load import window
from godwit.sim.join_box import Combination, SimBox
from godwit.sim.plan_change import NAMES, SimPlanChange, run

#: nested loops, no epochs, no jobs
NESTED = CostConstants(0, 0, 0, 1e-6, 1e-6, 0, 0, rehearse_s=0)
WARM_MS = 10_000
#: what is shorter cannot be timed on a machine that others use
SHORTEST_S = 0.02


def case(setting: Setting, constants: CostConstants = NESTED) -> ChangeCase:
    return ChangeCase(OLD, NEW, setting.load, window(setting.window_ms / 1000), constants)


def moving_state_s(setting: Setting, seed: int) -> float:
    """How long the new box's states take to compute from the leaves' rows of one window."""
    rows = [r for r in setting.arrivals(2 * setting.window_ms, seed) if r.time > setting.window_ms]
    states = {frozenset((alias,)): [(r,) for r in rows if r.alias == alias] for alias in OLD.aliases}
    box = SimBox(NEW, setting.window_ms)
    start = time.perf_counter()
    box.take_over(states)
    return time.perf_counter() - start


def parallel_track_s(setting: Setting, seed: int) -> float:
    """By the times of rows: from the start of the change until the old box holds only new ones."""
    rows = setting.arrivals(4 * setting.window_ms, seed)
    at = next(i for i, row in enumerate(rows) if row.time > setting.window_ms)
    out = run("parallel-track", SimPlanChange(OLD, NEW, setting.window_ms, rows, at))
    return (out.ended - out.began) / 1000


def lengths(
    settings: Iterable[tuple[float, Setting]], track: Callable[[Setting, int], float | None], repeats: int = 3
) -> list[dict[str, Any]]:
    """One point per setting: both strategies, measured and forecast."""
    points = []
    for x, setting in settings:
        moving = sum(moving_state_s(setting, seed) for seed in range(repeats)) / repeats
        expected_track = track_length(OLD, window(setting.window_ms / 1000))
        measured = track(setting, 1)
        points.append({"x": x, "moving_s": moving, "track_s": measured, "track_forecast_s": expected_track})
    return points


def with_forecasts(figures: dict[str, list[tuple[float, Setting]]], points: dict[str, Any]) -> CostConstants:
    """Fit to every second point; write each point's forecast beside its truth."""
    pairs = [
        (moving_state_features(case(setting)), point["moving_s"])
        for name, settings in figures.items()
        for (_, setting), point in zip(settings, points[name], strict=True)
    ]
    constants = fit([pair for pair in pairs[::2] if pair[1] > SHORTEST_S], NESTED)
    for name, settings in figures.items():
        for (_, setting), point in zip(settings, points[name], strict=True):
            point["moving_forecast_s"] = moving_state_features(case(setting, constants)).seconds(constants)
    return constants


#: figure -> (what is on its x axis, settings)
FIGURES: dict[str, list[tuple[float, Setting]]] = {
    "9 and 10": [(w, set1(w)) for w in (1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000)],
    "11": [(g, set2(g)) for g in (100, 80, 60, 50, 40, 30, 20, 10)],
    "12": [(w, set3(w)) for w in (250, 500, 1000, 1500, 2000, 2500, 3000, 4000)],
}


def over_time(setting: Setting, until_ms: int, seed: int = 1, step_ms: int = 500) -> dict[str, Any]:
    """Figures 13 to 16: combinations kept and results per step, for each strategy and for both plans alone.

    `oracle`: whether the results are those of the old plan that never changed, which tests compare with all
    combinations; that many rows are too many for it here.
    """
    rows = setting.arrivals(until_ms, seed)
    at = next(i for i, row in enumerate(rows) if row.time > WARM_MS)
    found: dict[str, Any] = {}
    unchanged: list[Combination] = []
    for name in ("old", "new", *NAMES):
        trees = {"old": (OLD, OLD), "new": (NEW, NEW)}.get(name, (OLD, NEW))
        building = sum(WARM_MS < row.time <= WARM_MS + 500 for row in rows)
        change = SimPlanChange(*trees, setting.window_ms, rows, at, building=building)
        out = run(name if name in NAMES else "moving-state", change)
        found[name] = {
            "kept": _sampled(out.trace, 1, step_ms, until_ms),
            "results": _sampled(out.trace, 2, step_ms, until_ms),
            "probed": out.probed,
            "count": len(out.made),
            "length_ms": out.ended - out.began,
        }
        unchanged = unchanged or out.results
        found[name]["oracle"] = "equal" if out.results == unchanged else "different"
    return found


def _sampled(trace: list[tuple[int, int, int]], which: int, step_ms: int, until_ms: int) -> list[int]:
    values, at, last = [], 0, 0
    for moment in range(step_ms, until_ms + 1, step_ms):
        while at < len(trace) and trace[at][0] <= moment:
            last = trace[at][which]
            at += 1
        values.append(last)
    return values


SERIES = {"13 and 14": (LOW, 20_000), "15 and 16": (HIGH, 15_000)}
