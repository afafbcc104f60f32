"""The constants of the cost models, fitted to this engine: plans of running queries are changed on Spark, and timed.

A setting is a chain of streams, a rate, a band and how rare matches are. Each is changed there and back by each
strategy, the first time with plans that Spark has to compile. Length: from the command until the old version is gone.
Rows come step by step in event time. Every other sample is held back from the fit and forecast with its constants.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench.plan.runtime import changing
from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.model.topology import Site, Topology
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

START_US = 1_767_225_600_000_000
STEP_S = 0.5
#: a change that takes longer has gone wrong
LONGEST_S = 30.0
FEATURES = {
    "moving-state": moving_state_features,
    "background": background_features,
    "parallel-track": parallel_track_features,
}


@dataclass(frozen=True)
class FitSetting:
    streams: str
    #: rows per second and stream, and the band to each side
    rate: float
    band_s: float
    #: pairs within the band that match
    sigma: float


#: small to large states; of rare and of frequent matches
SETTINGS = (
    FitSetting("abc", 200, 2.0, 1 / 200),
    FitSetting("abc", 2000, 2.0, 1 / 2000),
    FitSetting("abc", 2000, 4.0, 1 / 4000),
    FitSetting("abc", 8000, 2.0, 1 / 8000),
    FitSetting("abcd", 200, 2.0, 1 / 200),
    FitSetting("abcd", 1000, 3.0, 1 / 2000),
    FitSetting("abcd", 4000, 2.0, 1 / 8000),
)
STRATEGIES = ("moving-state", "background")


@dataclass(frozen=True)
class FitSample:
    setting: FitSetting
    strategy: str
    cold: bool
    measured_s: float
    features: ChangeFeatures


def sql(setting: FitSetting) -> str:
    near = f"INTERVAL {int(setting.band_s * 1000)} MILLISECONDS"
    text = f"SELECT {', '.join(f'{s}.n AS {s}n' for s in setting.streams)} FROM a"
    for left, right in zip(setting.streams, setting.streams[1:], strict=False):
        band = f"{right}.ts BETWEEN {left}.ts - {near} AND {left}.ts + {near}"
        text += f" JOIN {right} ON {left}.{left}{right} = {right}.{left}{right} AND {band}"
    return text


def orders(streams: str) -> tuple[str, str]:
    """As written, and from the other end."""
    return " JOIN ".join(streams), " JOIN ".join(reversed(streams))


def samples(spark: SparkSession, settings: tuple[FitSetting, ...] = SETTINGS) -> Iterator[FitSample]:
    for number, setting in enumerate(settings):
        with tempfile.TemporaryDirectory() as folder, _fleet(spark, Path(folder)) as fleet:
            yield from _changes(fleet, setting, random.Random(number))


def _fleet(spark: SparkSession, folder: Path) -> Fleet:
    fleet = Fleet(folder, spark, retention=Retention(keep=True))
    fleet.topology.add(Topology.of([Site("here")]))  # type: ignore[arg-type]
    for stream in "abcd":
        fleet.stream(stream, "n int, ab int, bc int, cd int, ts timestamp", site="here", ahead=None)
    return fleet


def _changes(fleet: Fleet, setting: FitSetting, rng: random.Random) -> Iterator[FitSample]:
    query = fleet.submit(sql(setting), "q")
    step = _run(fleet, setting, rng, 0, int(2.5 * setting.band_s / STEP_S))
    forth, back = orders(setting.streams)[::-1]
    seen: set[str] = set()
    for strategy in (*STRATEGIES, *STRATEGIES):
        for order in (forth, back):
            features = FEATURES[strategy](_case(fleet, setting, order))
            cold = order not in seen
            seen.add(order)
            _push(fleet, setting, rng, step)
            begun = time.perf_counter()
            fleet.replan("q", order=order, strategy=strategy)
            while changing(fleet):
                fleet.process_available()
                if time.perf_counter() - begun > LONGEST_S:
                    msg = f"{setting}, {strategy}: the change has not come to its end"
                    raise SystemExit(msg)
            took = time.perf_counter() - begun
            joins = len(setting.streams) - 1
            yield FitSample(setting, strategy, cold, took, replace(features, compiled=joins if cold else 0))
            step = _run(fleet, setting, rng, step + 1, int(1.5 * setting.band_s / STEP_S))
    fleet.close_sources()
    fleet.process_available()
    found = query.verdict()
    if not found.equal:
        raise SystemExit(str(found))


def _case(fleet: Fleet, setting: FitSetting, order: str) -> ChangeCase:
    runs, streams = fleet.execution(fleet.query("q").id), fleet.deployment.streams
    box = JoinBox.of(runs.shape.plan, streams)
    pairs = zip(setting.streams, setting.streams[1:], strict=False)
    load = BoxLoad(dict.fromkeys(setting.streams, setting.rate), dict.fromkeys(pairs, setting.sigma))
    return ChangeCase(box.tree, box.order(order), load, spans_of(runs, streams))


def _run(fleet: Fleet, setting: FitSetting, rng: random.Random, step: int, steps: int) -> int:
    for now in range(step, step + steps):
        _push(fleet, setting, rng, now)
        fleet.process_available()
    return step + steps


def _push(fleet: Fleet, setting: FitSetting, rng: random.Random, step: int) -> None:
    draw, count = np.random.default_rng(rng.randrange(2**32)), int(setting.rate * STEP_S)
    for stream in setting.streams:
        keys = {name: draw.integers(0, round(1 / setting.sigma), count, dtype=np.int32) for name in ("ab", "bc", "cd")}
        times = START_US + np.sort(draw.integers(step * STEP_S * 1e6, (step + 1) * STEP_S * 1e6, count))
        rows = {
            "n": draw.integers(0, 10**6, count, dtype=np.int32),
            **keys,
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        fleet.push(stream, pa.table(rows))


def fitted(found: list[FitSample]) -> dict[str, Any]:
    """Constants from every other sample, and how far the forecasts of all others are off."""
    learned, held = found[::2], found[1::2]
    constants = fit([(one.features, one.measured_s) for one in learned])
    return {
        "constants": asdict(constants),
        "samples": [
            {
                **asdict(one.setting),
                "strategy": one.strategy,
                "cold": one.cold,
                "measured_s": round(one.measured_s, 3),
                "forecast_s": round(one.features.seconds(constants), 3),
                "fitted": one in learned,
            }
            for one in found
        ],
        "within 25 %": {name: _within(part, constants) for name, part in (("fitted", learned), ("held back", held))},
        "median error": {name: _error(part, constants) for name, part in (("fitted", learned), ("held back", held))},
    }


def _errors(part: list[FitSample], constants: CostConstants) -> list[float]:
    return sorted(abs(one.features.seconds(constants) / one.measured_s - 1) for one in part)


def _within(part: list[FitSample], constants: CostConstants) -> str:
    return f"{sum(error <= 0.25 for error in _errors(part, constants))} of {len(part)}"


def _error(part: list[FitSample], constants: CostConstants) -> float:
    errors = _errors(part, constants)
    return round(errors[len(errors) // 2], 3)
