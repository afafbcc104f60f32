"""Plots and the second half of docs/results/plan.md from whatever docs/results/plan has; the first half is written."""

from __future__ import annotations

import json
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench._harness import RESULTS, describe, table

FOLDER = RESULTS / "plan"
#: what follows it in the report is made here
MADE = "<!-- made by python -m bench.plan report -->"


def write() -> None:
    report = RESULTS / "plan.md"
    parts = [report.read_text().partition(MADE)[0] + MADE, ""]
    for path in sorted(FOLDER.glob("*.json")):
        found = json.loads(path.read_text())
        if "points" in found:
            parts += _lengths(path.stem, found)
        elif "runs" in found:
            parts += _over_time(path.stem, found)
        elif "changes" in found:
            parts += _million(found)
        elif "constants" in found and "samples" in found:
            parts += _forecasts(path.stem, found)
        elif "points_on_spark" in found:
            parts += _lengths_on_spark(path.stem, found)
        elif "overlaps" in found:
            parts += _overlaps(found)
        elif "spark" in found:
            parts += _spark_series(path.stem, found)
        elif "swaps" in found:
            parts += ["## Selectivities that swap every 60 s (simulated)", ""]
            head = list(found["swaps"][0])
            parts += table(head, [[_short(swap[key]) for key in head] for swap in found["swaps"]])
    report.write_text("\n".join(parts) + "\n")


def _lengths(name: str, found: Any) -> list[str]:
    points = found["points"]
    lines = (("moving state", "moving_s"), ("moving state, forecast", "moving_forecast_s"))
    for label, key in (*lines, ("parallel track", "track_s"), ("2W", "track_forecast_s")):
        style = "--" if "forecast" in key else "-"
        plt.plot([p["x"] for p in points], [p[key] or float("nan") for p in points], style, label=label)
    plt.xlabel(found["x"])
    plt.ylabel("length of the change, s")
    _finish(name)
    head = ("x", "moving_s", "moving_forecast_s", "track_s", "track_forecast_s")
    rows = [[_short(point[key]) for key in head] for point in points]
    return [f"## {found['title']}", "", f"![{name}](plan/{name}.png)", "", *table(head, rows)]


def _over_time(name: str, found: Any) -> list[str]:
    for run, values in found["runs"].items():
        plt.plot([found["step_s"] * (k + 1) for k in range(len(values["kept"]))], values["kept"], label=run)
    plt.xlabel("s")
    plt.ylabel("intermediate rows")
    _finish(name)
    head = ("run", "pairs looked at", "results", "length, ms", "oracle")
    rows = [
        [run, values["probed"], values["count"], values["length_ms"], values["oracle"]]
        for run, values in found["runs"].items()
    ]
    return [f"## {found['title']}", "", f"![{name}](plan/{name}.png)", "", *table(head, rows)]


def _lengths_on_spark(name: str, found: Any) -> list[str]:
    points = found["points_on_spark"]
    figures = list(dict.fromkeys(point["figure"] for point in points))
    _, axes = plt.subplots(1, len(figures), figsize=(4 * len(figures), 3.5))
    for axis, figure in zip(axes, figures, strict=True):
        those = [point for point in points if point["figure"] == figure]
        for strategy in dict.fromkeys(point["strategy"] for point in those):
            line = [(p["x"], p["length_s"]) for p in those if p["strategy"] == strategy]
            axis.plot(*zip(*line, strict=True), "o-", label=strategy)
        axis.set_title(f"Figure {figure}")
        axis.set_xlabel(those[0]["axis"])
        axis.set_ylabel("length of the change, s")
    _finish(name)
    keys = ("figure", "axis", "x", "strategy", "length_s", "silence_s", "calm_gap_s", "extra_rows")
    head = ("figure", "x is", "x", "strategy", "length, s", "silence, s", "calm gap, s", "extra rows")
    rows = [[_short(point[key]) for key in keys] for point in points]
    told = f"{describe(found['machine'])}. Medians of the changes there and back; oracle: equal in every fleet."
    return [f"## {found['title']}", "", told, "", f"![{name}](plan/{name}.png)", "", *table(head, rows)]


def _overlaps(found: Any) -> list[str]:
    """`track`: what parallel-track took in beside, in the same fleet."""
    rows = []
    for point in found["overlaps"]:
        track = next(
            p for p in found["overlaps"] if p["in_common"] == point["in_common"] and p["strategy"] == "parallel-track"
        )
        share = point["extra_rows"] / max(track["extra_rows"], 1)
        extra = [f"{point['extra'][key]:g}" for key in ("read", "made", "beside")]
        rows.append([point["in_common"], point["strategy"], *extra, f"{point['extra_rows']:g}", f"{share:.2f}x"])
    head = ("joins in common", "strategy", "read", "made", "beside", "extra rows", "of parallel-track's")
    told = f"{describe(found['machine'])}. Medians of the changes there and back; oracle: equal in every fleet."
    return [f"## {found['title']}", "", told, "", *table(head, rows)]


def _million(found: Any) -> list[str]:
    head = ("W, ms", "strategy", "change", "length, s", "silence, s", "calm gap, s", "extra rows", "oracle")
    rows = [
        [run["window_ms"], run["strategy"], n + 1, *_change(change), run["oracle"]]
        for run in found["changes"]
        for n, change in enumerate(run["changes"])
    ]
    return [f"## {found['title']}", "", describe(found["machine"]), "", *table(head, rows)]


def _forecasts(name: str, found: Any) -> list[str]:
    for strategy in dict.fromkeys(one["strategy"] for one in found["samples"]):
        those = [one for one in found["samples"] if one["strategy"] == strategy and not one["fitted"]]
        plt.loglog([p["measured_s"] for p in those], [p["forecast_s"] for p in those], "o", label=strategy)
    line = [min(p["measured_s"] for p in found["samples"]), max(p["measured_s"] for p in found["samples"])]
    for factor, style in ((1.0, "k-"), (0.75, "k:"), (1.25, "k:")):
        plt.plot(line, [factor * x for x in line], style, linewidth=0.8)
    plt.xlabel("measured length, s (settings that the fit has not seen)")
    plt.ylabel("forecast, s")
    _finish(name)
    told = [f"- {which}: {share}" for which, share in found["within 25 %"].items()]
    constants = ", ".join(f"`{key}` {value:.3g}" for key, value in found["constants"].items())
    head = list(found["samples"][0])
    rows = [[_short(one[key]) for key in head] for one in found["samples"]]
    return [
        f"## {found['title']}",
        "",
        *(f"{describe(machine)}  " for machine in found["machines"]),
        "",
        f"![{name}](plan/{name}.png)",
        "",
        f"{found['settings']} settings. Forecast within 25 % of the measured length:",
        "",
        *told,
        "",
        f"Constants: {constants}.",
        "",
        *table(head, rows),
    ]


def _spark_series(name: str, found: Any) -> list[str]:
    for run, values in found["spark"].items():
        plt.plot([at for at, _, _ in values["kept"]], [inner for _, _, inner in values["kept"]], label=run)
    plt.xlabel("s")
    plt.ylabel("intermediate rows")
    _finish(name)
    head = ("run", "length, s", "silence, s", "calm gap, s", "extra rows", "calm micro-batch, ms", "results", "oracle")
    rows = [
        [
            run,
            *(_change(v["changes"][0]) if v["changes"] else ["", "", _short(v["calm_gap_s"]), ""]),
            v["calm_batch_ms"],
            v["results"],
            v["oracle"],
        ]
        for run, v in found["spark"].items()
    ]
    picture = ["", f"![{name}](plan/{name}.png)", ""]
    return [f"## {found['title']}", "", describe(found["machine"]), *picture, *table(head, rows)]


def _change(change: Any) -> list[str]:
    return [_short(change[key]) for key in ("length_s", "silence_s", "calm_gap_s", "extra_rows")]


def _finish(name: str) -> None:
    plt.legend()
    plt.tight_layout()
    plt.savefig(FOLDER / f"{name}.png", dpi=110)
    plt.close()


def _short(value: Any) -> str:
    if value is None:
        return "not run"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
