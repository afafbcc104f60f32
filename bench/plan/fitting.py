"""The constants of the cost models, fitted to this engine: plans of a running query are changed while rows come, and
timed from the command to the end.

A setting is one of the paper's, or its first three streams, with a scale. Of each, every strategy makes a change in
each run; a setting's length is the median over runs. Constants are fitted to every other setting and judged on those
between, which the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench.plan import runtime
from bench.plan.settings import HIGH, LOW, MILLION, Setting, set1, set2, three
from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column, Stream
from godwit.replan.box import JoinBox, reordered
from godwit.replan.forecast import (
    ChangeCase,
    ChangeFeatures,
    CostConstants,
    background_features,
    fit,
    moving_state_features,
    parallel_track_features,
    stateless_order_features,
)
from godwit.replan.load import BoxLoad, spans_of
from godwit.sql.compile import compile_query

FEATURES = {
    "moving-state": moving_state_features,
    "background": background_features,
    "parallel-track": parallel_track_features,
    "stateless-order": stateless_order_features,
}
#: (setting, times its rates), in parts that are measured in a run each: few and many rows, rare and frequent matches
SETTINGS: tuple[tuple[tuple[Setting, float], ...], ...] = (
    (*((LOW, scale) for scale in (5.0, 10.0, 20.0, 40.0)), (set1(1000), 10.0), (set2(20), 5.0)),
    (*((HIGH, scale) for scale in (0.25, 0.5, 1.0)), *((set1(2000), scale) for scale in (5.0, 20.0, 40.0))),
    tuple((three(1000), scale) for scale in (5.0, 10.0, 20.0, 40.0, 80.0)),
    tuple((three(500), scale) for scale in (10.0, 20.0, 40.0, 80.0, 160.0)),
)
PARTS = len(SETTINGS)
#: measured by themselves (`spark-million-..`): what small changes cannot tell, how long epochs wait for micro-batches
LARGE = (MILLION,)
SEQUENCE = ("moving-state", "background", "parallel-track")
#: rounds of changes in the first setting of a part, of which the first compiles; one in each other
WARMING = 2
#: rounds more of those that take no two windows: their lengths vary most, for they wait for rows of every stream
SHORT, ROUNDS = ("moving-state", "background"), 6
#: the constants that say how long a change takes beyond the work in it, which is measured as such (`costs.py`)
OF_LENGTH = ("epoch_s", "order_s", "rehearse_s", "epoch_batches", "lines")
#: off by no more than this, a forecast is right
NEAR = 0.25


@dataclass(frozen=True)
class FitSample:
    """One change."""

    part: int
    #: of the setting in its part, by which it is fitted to or held back
    number: int
    strategy: str
    #: to the new order, or back to the old one
    back: bool
    #: Spark had not seen these plans in this session
    cold: bool
    measured_s: float
    #: how long a micro-batch took before
    batch_s: float

    @property
    def setting(self) -> tuple[Setting, float]:
        return (*SETTINGS, LARGE)[self.part][self.number]

    @property
    def fitted(self) -> bool:
        return self.number % 2 == 0

    @property
    def features(self) -> ChangeFeatures:
        setting, scale = self.setting
        return FEATURES[self.strategy](case(setting, scale, self.back, self.batch_s, self.cold))


def case(setting: Setting, scale: float, back: bool = False, batch_s: float = 0.0, fresh: bool = False) -> ChangeCase:
    """The change that is measured, as the forecast is given it."""
    columns = tuple(Column(*text.split()) for text in runtime.COLUMNS.split(", "))
    streams = {StreamId(alias): Stream(StreamId(alias), columns, "ts") for alias in setting.aliases.lower()}
    query = compile_query(runtime.sql(setting), streams, QueryId("q"))
    box, known = JoinBox.of(query.shape.plan, streams), setting.load
    old, new = (box.order(order) for order in setting.orders)
    rates = {alias.lower(): scale * rate for alias, rate in known.rates.items()}
    sigma = {(x.lower(), y.lower()): share / scale for (x, y), share in known.sigma.items()}
    if back:
        query, old, new = reordered(query, new, streams), new, old
    load, span_s = BoxLoad(rates, sigma, batch_s), box.span_us / 1e6
    return ChangeCase(old, new, load, spans_of(query, streams), span_s=span_s, fresh=fresh)


def samples(spark: SparkSession, part: int) -> Iterator[FitSample]:
    """Of one part of the settings. In its first one plans are compiled: changes of one round more are told apart."""
    for number, (setting, scale) in enumerate(SETTINGS[part]):
        with runtime.running(spark, setting, scale) as bench:
            bench.load.run(1.5 + setting.window_ms / 1000)
            for strategy, cold in _turns(number):
                yield _changed(bench, part, number, strategy, cold)
            _check(bench, setting, scale)
        with runtime.running(spark, setting, scale, probing=True) as bench:
            bench.load.run(1.0)
            for _ in range(3):
                yield _changed(bench, part, number, "stateless-order", cold=False)
            _check(bench, setting, scale)


def _turns(number: int) -> Iterator[tuple[str, bool]]:
    """(strategy, whether it compiles); each goes there and back."""
    first = number % len(SEQUENCE)
    for turn in range(WARMING if number == 0 else 1):
        for strategy in (*SEQUENCE[first:], *SEQUENCE[:first]):
            yield strategy, number == 0 and turn == 0
    for turn in range(ROUNDS):
        for strategy in SHORT if turn % 2 == 0 else SHORT[::-1]:
            yield strategy, False


def _changed(bench: runtime.Bench, part: int, number: int, strategy: str, cold: bool) -> FitSample:
    setting, _ = SETTINGS[part][number]
    batch_s = median(ms for _, ms in bench.meter.took[-20:]) / 1000
    told = bench.change_back(strategy, setting.orders, after_s=0.3)
    return FitSample(part, number, strategy, told["back"], cold, round(told["length_s"], 4), round(batch_s, 4))


def _check(bench: runtime.Bench, setting: Setting, scale: float) -> None:
    oracle = bench.verdict()["oracle"]
    if oracle != "equal":
        msg = f"{setting} x {scale:g}: results are {oracle}"
        raise SystemExit(msg)


def fitted(found: Sequence[FitSample]) -> dict[str, Any]:
    """Constants from every other setting, and how far the forecasts of the others are off."""
    seen = list(_medians([one for one in found if one.fitted]))
    # What compiling adds is found last: it varies most, and would pull at the others.
    warm, cold = ([(one.features, one.measured_s) for one in seen if one.cold is which] for which in (False, True))
    constants = fit(cold, fit(warm, only=OF_LENGTH), only=("compile_s",))
    points = list(_points(found, constants))
    shares = {
        f"{strategy}, {name}": _within([p for p in points if p["strategy"] == strategy and p["fitted"] == which])
        for strategy in FEATURES
        for name, which in (("held back", False), ("fitted to", True))
    }
    settings = len({(one.part, one.number) for one in found})
    return {"constants": asdict(constants), "settings": settings, "within 25 %": shares, "samples": points}


def _medians(found: Sequence[FitSample]) -> Iterator[FitSample]:
    """One for the changes that differ in nothing but when they were made."""
    alike: dict[FitSample, list[FitSample]] = {}
    for one in found:
        alike.setdefault(replace(one, measured_s=0.0, batch_s=0.0), []).append(one)
    for one, all_of_them in alike.items():
        length, batch = (median(times) for times in zip(*((m.measured_s, m.batch_s) for m in all_of_them), strict=True))
        yield replace(one, measured_s=length, batch_s=batch)


def _points(found: Sequence[FitSample], constants: CostConstants) -> Iterator[dict[str, Any]]:
    """One a setting and strategy, of plans that were compiled before."""
    for key in dict.fromkeys((one.part, one.number, one.strategy) for one in found):
        alike = [one for one in found if (one.part, one.number, one.strategy) == key and not one.cold]
        setting, scale = alike[0].setting
        yield {
            "streams": len(setting.aliases),
            "window_ms": setting.window_ms,
            "rows/s": round(scale * sum(setting.load.rates.values())),
            "strategy": alike[0].strategy,
            "fitted": alike[0].fitted,
            "measured_s": round(median(one.measured_s for one in alike), 3),
            "forecast_s": round(median(one.features.seconds(constants) for one in alike), 3),
        }


def _within(points: Sequence[dict[str, Any]]) -> str:
    errors = sorted(abs(point["forecast_s"] / point["measured_s"] - 1) for point in points)
    middle = f", median error {errors[len(errors) // 2]:.0%}, largest {errors[-1]:.0%}" if errors else ""
    return f"{sum(error <= NEAR for error in errors)} of {len(points)}{middle}"


def of_large_states(told: dict[str, Any]) -> Iterator[FitSample]:
    """A run with a million rows of state: there and back, of which the first compiles."""
    for number, change in enumerate(told["changes"]):
        batch_s, back = round(told["calm_batch_ms"] / 1000, 4), number % 2 == 1
        yield FitSample(PARTS, 0, told["strategy"], back, number == 0, round(change["length_s"], 4), batch_s)


def to_json(one: FitSample) -> dict[str, Any]:
    return asdict(one)


def from_json(told: dict[str, Any]) -> FitSample:
    return FitSample(**told)
