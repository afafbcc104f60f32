"""Pictures: latency over time (Figure 7), and what a change costs (Figures 8 to 10)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bench.isqd.cells import STRATEGIES
from bench.isqd.report import aggregated

mpl.use("Agg")


def draw(results: Sequence[dict[str, Any]], folder: Path) -> list[str]:
    """All pictures that the results are enough for; their names."""
    good = [r for r in results if "failed" not in r]
    made = []
    for kind in ("stateless", "stateful"):
        rows = [r for r in good if r["cell"]["figure"] == "7-8" and r["cell"]["kind"] == kind]
        if rows:
            made += [_over_time(rows, kind, folder), _cost(rows, kind, folder)]
    return made


def _over_time(rows: Sequence[dict[str, Any]], kind: str, folder: Path) -> str:
    import matplotlib.pyplot as plt

    largest = max(rows, key=lambda r: int(r["cell"]["x"].split()[0]))["cell"]["x"]
    figure, axes = plt.subplots(figsize=(6, 4))
    for r in (r for r in rows if r["cell"]["x"] == largest):
        points = [p for p in r["latency"]["over_time"] if p["p50_ms"] is not None]
        axes.plot([p["second"] for p in points], [p["p50_ms"] for p in points], label=r["cell"]["strategy"])
    cut = rows[0]["cut"]
    axes.axvspan(cut["calm"], cut["calm"] + cut["changes"], color="grey", alpha=0.1)
    axes.set(yscale="log", xlabel="s (grey: a change every second)", ylabel="event-time latency, p50 ms")
    axes.set_title(f"{kind}, {largest} a query")
    return _saved(figure, axes, folder / f"latency_{kind}.png")


def _cost(rows: Sequence[dict[str, Any]], kind: str, folder: Path) -> str:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for strategy in STRATEGIES:
        mine = sorted(
            (int(r["cell"]["x"].split()[0]), aggregated(r) or 0, max(r["reconfigurations"], 1))
            for r in rows
            if r["cell"]["strategy"] == strategy
        )
        if mine:
            axes.plot([x for x, _, _ in mine], [1000 * s / count for _, s, count in mine], "o-", label=strategy)
    axes.set(yscale="log", xlabel="sources a query", ylabel="ms a reconfiguration", title=kind)
    return _saved(figure, axes, folder / f"deployment_{kind}.png")


def _saved(figure: Any, axes: Any, path: Path) -> str:
    import matplotlib.pyplot as plt

    axes.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path.name
