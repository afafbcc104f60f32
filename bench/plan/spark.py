"""The paper's experiments on Spark, scaled: rates are `SCALE` times the paper's, matches as much rarer.

lengths    Figures 9, 10 and 12: length and silence of a change against W, three strategies
series     Figures 13 to 16: intermediate rows and results over time, low and high load, all strategies
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench._harness import headline
from bench.plan import runtime
from bench.plan.settings import LOW, Setting, set1

SCALE = 10.0
SERIES = ("none", "new", "moving-state", "parallel-track", "background", "pause-drain-resume", "stateless-order")


def lengths(spark: SparkSession, windows_ms: tuple[int, ...] = (500, 1000, 2000)) -> list[dict[str, Any]]:
    found = []
    for window in windows_ms:
        for strategy in ("moving-state", "parallel-track", "background"):
            run = runtime.run(spark, set1(window), strategy, SCALE, 3 + window / 1000, 2, 2)
            found.append({"window_ms": window, **_short(run)})
    return found


def million(spark: SparkSession, strategy: str) -> dict[str, Any]:
    """A million rows of streams in the states: a window of 600 s, filled before the wall clock begins. The first change
    compiles."""
    setting = Setting(600_000, (100, 100, 100, 100), (0.0001, 0.0001, 0.0001))
    run = runtime.run(spark, setting, strategy, 42.0, 3, 3, 2, fill_s=600)
    return {"window_ms": setting.window_ms, **_short(run)}


def series(spark: SparkSession, setting: Setting) -> dict[str, Any]:
    runs = {}
    for strategy in SERIES:
        run = runtime.run(spark, setting, strategy, SCALE, 4, 3, 1)
        runs[strategy] = {**_short(run), "kept": run["kept"], "results_at": run["results_at"]}
    return runs


def _short(run: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in run.items() if k not in ("kept", "results_at")}


def figures(spark: SparkSession) -> Iterator[dict[str, Any]]:
    """The headline figures, in one run: each strategy's second and third change (the first compiles)."""
    names = ("moving-state", "parallel-track", "background", "stateless-order")
    runs = {name: runtime.run(spark, LOW, name, SCALE, 4, 3, 3) for name in names}
    later = {name: run["changes"][1:] for name, run in runs.items()}
    ours, length, extra = (_of(later["background"], key) for key in ("silence_s", "length_s", "extra_rows"))
    calm = _of(later["background"], "calm_gap_s")
    oracle = {"oracle": "equal" if all(run["oracle"] == "equal" for run in runs.values()) else "different"}
    silent = _of(later["moving-state"], "silence_s")
    note = f"Spark, Table 2 low load x {SCALE:g}; moving state was silent for {silent:.2f} s"
    yield headline(
        "Spark: longest silence in a change, s, over the calm gap",
        ours,
        calm,
        "1.2",
        met=ours <= 1.2 * calm,
        note=note,
        **oracle,
    )
    moving = _of(later["moving-state"], "length_s")
    yield headline(
        "Spark: length of background over moving state, s", length, moving, "1.1", met=length <= 1.1 * moving, **oracle
    )
    track = _of(later["parallel-track"], "extra_rows")
    yield headline(
        "Spark: extra rows of background over parallel track", extra, track, "0.1", met=extra <= 0.1 * track, **oracle
    )
    probing, kept = runs["stateless-order"]["calm_batch_ms"], runs["background"]["calm_batch_ms"]
    change = _of(later["stateless-order"], "length_s") * 1000
    yield headline(
        "Spark: stateless-order, ms of a change over two micro-batches",
        change,
        2 * probing,
        "1",
        met=change <= 2 * probing,
        note="nothing is moved",
        **oracle,
    )
    yield headline(
        "Spark: calm micro-batch of probing joins over materialised ones, ms", probing, kept, "n/a", met=None, **oracle
    )


def _of(changes: list[dict[str, Any]], key: str) -> float:
    return round(float(median(change[key] for change in changes)), 3)
