"""Experiments of plan changes: `python -m bench.plan [experiment ...]`.

Each writes docs/results/plan/<name>.json; docs/results/plan.md and the plots are made from whatever has been run.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Any

from bench._harness import machine, save
from bench.plan import costs, fitting, model, report, spark, swapping
from bench.plan.settings import HIGH, LOW, Setting
from godwit.engine.session import spark_session

AXES = {"9 and 10": "W, ms", "11": "inter-arrival time of B, ms", "12": "W, ms"}


def lengths() -> None:
    """Figures 9 to 12. Where the old box is too large to run row by row, parallel track's length is not measured."""

    def track(setting: Setting, seed: int) -> float | None:
        rows_kept = setting.window_ms / min(setting.gaps_ms)
        return model.parallel_track_s(setting, seed) if rows_kept <= 50 else None

    points = {name: model.lengths(settings, track) for name, settings in model.FIGURES.items()}
    constants = model.with_forecasts(model.FIGURES, points)
    for name, found in points.items():
        title = f"Figure {name}: length of a change in the model"
        out = {"title": title, "x": AXES[name], "points": found, "constants": asdict(constants), "machine": machine()}
        save(report.FOLDER / f"figure_{name.replace(' ', '_')}.json", out)


def series() -> None:
    """Figures 13 to 16."""
    for name, (setting, until) in model.SERIES.items():
        runs = model.over_time(setting, until)
        title = f"Figures {name}: intermediate rows in the model, change at 10 s"
        out = {"title": title, "step_s": 0.5, "runs": runs, "machine": machine()}
        save(report.FOLDER / f"figure_{name.replace(' ', '_')}.json", out)


def swaps() -> None:
    out = {"swaps": [swapping.run(factor) for factor in (2, 3, 5, 10)], "machine": machine()}
    save(report.FOLDER / "swaps.json", out)


def measured(part: int) -> None:
    """Changes that are timed, for `constants`, beside those of earlier runs."""
    here, path = machine(), report.FOLDER / "measured" / f"{part}.json"
    before = json.loads(path.read_text()) if path.exists() else {"measured": [], "machines": []}
    session, found = spark_session(quick=True), list[dict[str, Any]](before["measured"])
    for one in fitting.samples(session, part):
        found.append(fitting.to_json(one))
        print(f"{one.setting}, {one.strategy}: {one.measured_s:.3f} s", file=sys.stderr, flush=True)
        save(path, {"measured": found, "machines": [*before["machines"], here]})


def computed() -> None:
    """The work constants: CPU time of computing states, small to large. Any machine will do, busy or not."""
    found: list[costs.ComputedOnce] = []
    for one in costs.samples(spark_session(quick=True)):
        found.append(one)
        print(one, file=sys.stderr, flush=True)
        constants = costs.fitted(found)
        told = [{**asdict(s), "forecast_s": round(s.features.seconds(constants), 4)} for s in found]
        near = sum(abs(s["forecast_s"] / s["cpu_s"] - 1) <= 0.25 for s in told)
        out = {"constants": asdict(constants), "within 25 %": f"{near} of {len(told)}", "states": told}
        save(report.FOLDER / "computed.json", {"title": "CPU time of computing a state", **out, "machine": machine()})


def constants() -> None:
    """The cost models' constants, fitted to the changes that were timed."""
    parts = [json.loads(path.read_text()) for path in sorted((report.FOLDER / "measured").glob("*.json"))]
    found = [fitting.from_json(told) for part in parts for told in part["measured"]]
    for path in sorted(report.FOLDER.glob("spark_million_*.json")):
        found += [one for run in json.loads(path.read_text())["changes"] for one in fitting.of_large_states(run)]
    title = "Forecast and measured length of changes on Spark"
    out = {"title": title, **fitting.fitted(found), "machines": [one for part in parts for one in part["machines"]]}
    save(report.FOLDER / "constants.json", out)


def spark_million(strategy: str) -> None:
    point = spark.million(spark_session(quick=True), strategy)
    title = f"On Spark: a change with a million rows of state, by {strategy}"
    save(report.FOLDER / f"spark_million_{strategy}.json", {"title": title, "changes": [point], "machine": machine()})


def spark_lengths() -> None:
    points = spark.lengths(spark_session(quick=True))
    title = "On Spark: length, silence and extra rows of a change (Figures 9 to 12)"
    save(report.FOLDER / "spark_lengths.json", {"title": title, "points_on_spark": points, "machine": machine()})


def spark_overlaps() -> None:
    points = spark.overlaps(spark_session(quick=True))
    title = "On Spark: extra rows against how many of three joins the plans have in common"
    save(report.FOLDER / "spark_overlaps.json", {"title": title, "overlaps": points, "machine": machine()})


def spark_low() -> None:
    _spark_series("13_and_14", LOW, spark.SCALE)


def spark_high() -> None:
    _spark_series("15_and_16", HIGH, spark.HIGH_SCALE)


def _spark_series(name: str, setting: Setting, scale: float) -> None:
    runs = spark.series(spark_session(quick=True), setting, scale)
    title = f"On Spark: figures {name.replace('_', ' ')} (rates x {scale:g})"
    save(report.FOLDER / f"spark_{name}.json", {"title": title, "spark": runs, "machine": machine()})


EXPERIMENTS = {
    "lengths": lengths,
    "series": series,
    "swaps": swaps,
    "spark-lengths": spark_lengths,
    "spark-overlaps": spark_overlaps,
    "spark-low": spark_low,
    "spark-high": spark_high,
    **{f"spark-million-{name}": partial(spark_million, name) for name in ("background", "moving-state")},
    **{f"measured-{part}": partial(measured, part) for part in range(fitting.PARTS)},
    "computed": computed,
    "constants": constants,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in EXPERIMENTS and name != "report"]
    if unknown:
        msg = f"unknown experiment {unknown[0]}; known: {', '.join(EXPERIMENTS)}, report"
        raise SystemExit(msg)
    for name in names or EXPERIMENTS:
        if name != "report":
            start = time.perf_counter()
            EXPERIMENTS[name]()
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
