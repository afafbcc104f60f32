"""The constants of the cost models, fitted to this engine: plans of a running query are changed while rows come, and
timed from the command to the end.

A setting is one of the paper's with a scale. Of each, every strategy makes a change, there and back in turn. Constants
are fitted to every other setting and judged on those between, which the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from bench.plan import runtime
from bench.plan.settings import HIGH, LOW, Setting, set1, set2, set3
from godwit.replan.box import JoinBox
from godwit.replan.forecast import (
    ChangeCase,
    ChangeFeatures,
    CostConstants,
    background_features,
    fit,
    moving_state_features,
    parallel_track_features,
)
from godwit.replan.load import BoxLoad, spans_of

FEATURES = {
    "moving-state": moving_state_features,
    "background": background_features,
    "parallel-track": parallel_track_features,
}
#: (setting, times its rates); small to large states, rare and frequent matches
SETTINGS: tuple[tuple[Setting, float], ...] = (
    *((LOW, scale) for scale in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)),
    *((HIGH, scale) for scale in (5.0, 10.0, 20.0)),
    *((set1(window), scale) for window in (500, 1000, 1500) for scale in (10.0, 40.0)),
    *((set2(gap), scale) for gap in (100, 20) for scale in (10.0, 40.0)),
    (set3(500), 2.0),
    (set3(500), 8.0),
)


#: settings are measured in so many runs, each of a few minutes
PARTS = 3
SEQUENCE = ("moving-state", "background", "parallel-track", "moving-state", "background")


@dataclass(frozen=True)
class FitSample:
    #: of the setting, by which it is fitted to or held back
    number: int
    setting: Setting
    scale: float
    strategy: str
    #: Spark had not seen these plans in this session
    cold: bool
    measured_s: float
    features: ChangeFeatures

    @property
    def fitted(self) -> bool:
        return self.number % 2 == 0


def samples(spark: SparkSession, part: int) -> Iterator[FitSample]:
    """Of one part of the settings."""
    seen: set[tuple[object, ...]] = set()
    for number, (setting, scale) in enumerate(SETTINGS):
        if number % PARTS != part:
            continue
        with runtime.running(spark, setting, scale) as bench:
            bench.load.run(1.5 + 2 * setting.window_ms / 1000)
            for turn, strategy in enumerate(SEQUENCE):
                order = (runtime.NEW_ORDER, runtime.OLD_ORDER)[turn % 2]
                plans = setting.window_ms, strategy, order
                features = FEATURES[strategy](_case(bench, setting, scale, order))
                measured = bench.change(strategy, order)["length_s"]
                features = replace(features, compiled=0 if plans in seen else len("abc"))
                yield FitSample(number, setting, scale, strategy, plans not in seen, measured, features)
                seen.add(plans)
            oracle = bench.verdict()["oracle"]
        if oracle != "equal":
            msg = f"{setting} x {scale:g}: results are {oracle}"
            raise SystemExit(msg)


def _case(bench: runtime.Bench, setting: Setting, scale: float, order: str) -> ChangeCase:
    runs, streams = bench.fleet.execution(bench.query.id), bench.fleet.deployment.streams
    box, known = JoinBox.of(runs.shape.plan, streams), setting.load
    rates = {alias.lower(): scale * rate for alias, rate in known.rates.items()}
    sigma = {(x.lower(), y.lower()): share / scale for (x, y), share in known.sigma.items()}
    return ChangeCase(box.tree, box.order(order), BoxLoad(rates, sigma), spans_of(runs, streams))


def fitted(found: Sequence[FitSample]) -> dict[str, Any]:
    """Constants from every other setting, and how far the forecasts of the others are off."""
    constants = fit([(one.features, one.measured_s) for one in found if one.fitted])
    held = [one for one in found if not one.fitted]
    names = {"warm": [s for s in held if not s.cold], "cold": [s for s in held if s.cold]}
    return {
        "constants": asdict(constants),
        "settings": len({one.number for one in found}),
        "samples": [{**_told(one), "forecast_s": round(one.features.seconds(constants), 3)} for one in found],
        "held back, within 25 %": {
            f"{strategy}, {name}": _within([s for s in part if s.strategy == strategy], constants)
            for name, part in names.items()
            for strategy in FEATURES
        },
    }


def _told(one: FitSample) -> dict[str, Any]:
    rest = {"strategy": one.strategy, "cold": one.cold, "fitted": one.fitted, "measured_s": round(one.measured_s, 3)}
    return {
        "window_ms": one.setting.window_ms,
        "rows/s": round(one.scale * sum(one.setting.load.rates.values())),
        **rest,
    }


def _within(part: Sequence[FitSample], constants: CostConstants) -> str:
    errors = sorted(abs(one.features.seconds(constants) / one.measured_s - 1) for one in part)
    middle = f", median error {errors[len(errors) // 2]:.0%}" if errors else ""
    return f"{sum(error <= 0.25 for error in errors)} of {len(part)}{middle}"


def to_json(one: FitSample) -> dict[str, Any]:
    return {**_told(one), "number": one.number, "features": asdict(one.features)}


def from_json(told: dict[str, Any]) -> FitSample:
    setting, scale = SETTINGS[told["number"]]
    features = ChangeFeatures(**told["features"])
    return FitSample(told["number"], setting, scale, told["strategy"], told["cold"], told["measured_s"], features)
