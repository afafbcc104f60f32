"""The demo's pictures: added latency over time with the hand-overs marked, and what each reconfiguration moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from godwit.demo.outcome import DemoOutcome

matplotlib.use("Agg")  # files, no window
import matplotlib.pyplot as plt

_COLOURS = ("#0072b2", "#d55e00")


def draw(outcomes: Sequence[DemoOutcome], folder: Path) -> list[Path]:
    """Write the pictures; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / "latency.png"]
    _latency(outcomes, found[0])
    moved = next((outcome for outcome in outcomes if outcome.moves), None)
    if moved is not None:
        found.append(folder / "reconfigurations.png")
        _reconfigurations(moved, found[1])
    return found


def _latency(outcomes: Sequence[DemoOutcome], path: Path) -> None:
    """Each answer is a dot, where it was due; logarithmic, because plain Spark is orders of magnitude away."""
    figure, (whole, added) = plt.subplots(2, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
    for axes, what, title in (
        (whole, "latency", "latency: from the event to the answer"),
        (
            added,
            "added",
            "added latency: beyond what the query must wait for (its rows, window end, disorder bound)",
        ),
    ):
        for outcome, colour in zip(outcomes, _COLOURS, strict=False):
            at = [answer.due - outcome.started for answer in outcome.answers]
            ms = [max(getattr(answer, what), 1.0) for answer in outcome.answers]
            axes.scatter(at, ms, s=9, color=colour, alpha=0.6, linewidths=0, label=outcome.name)
        axes.set(yscale="log", ylabel="ms", title=title)
        axes.grid(alpha=0.3, which="both", axis="y")
        _mark(axes, outcomes[0])
    added.set_xlabel("seconds; a tick at the top is a hand-over")
    whole.legend(loc="upper left", framealpha=0.9)
    _save(figure, path)


def _mark(axes: Axes, outcome: DemoOutcome) -> None:
    """The calm part shaded, and a tick per hand-over."""
    axes.axvspan(0, outcome.calm_until - outcome.started, color="0.93", zorder=0)
    at = [wall - outcome.started for wall in outcome.handovers]
    axes.vlines(at, 0.96, 1.0, color="0.35", linewidth=0.7, transform=axes.get_xaxis_transform())


def _reconfigurations(outcome: DemoOutcome, path: Path) -> None:
    figure, (sizes, times) = plt.subplots(2, 1, figsize=(9, 5.5), sharex=True, layout="constrained")
    at = [move.at - outcome.started for move in outcome.moves]
    sizes.vlines(at, 0, [move.bytes / 1000 for move in outcome.moves], linewidth=3, color=_COLOURS[0])
    sizes.set(ylim=(0, None), ylabel="kB", title="state that went to another region, by reconfiguration")
    times.scatter(
        at, [move.in_force_ms for move in outcome.moves], s=14, color=_COLOURS[0], label="in force everywhere"
    )
    there = [(x, move.state_ms) for x, move in zip(at, outcome.moves, strict=True) if move.state_ms is not None]
    times.scatter(
        [x for x, _ in there], [ms for _, ms in there], s=14, color=_COLOURS[1], marker="x", label="state there"
    )
    times.set(yscale="log", ylabel="ms", xlabel="seconds", title="how long each took (nothing stops meanwhile)")
    times.grid(alpha=0.3, which="both", axis="y")
    times.legend(loc="center left")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
