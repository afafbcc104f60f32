"""A picture for each figure: disruption and jitter by strategy over what is varied; figure 9 over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

from bench._harness import RESULTS

mpl.use("Agg")
#: what is 0 is drawn at the foot of a logarithmic axis
LEAST = 1.0


def draw(figure: str, found: Sequence[dict[str, Any]]) -> str | None:
    """The picture's name; None: there is nothing to draw."""
    good = [one for one in found if "disruption_ms" in one]
    if figure == "fig9":
        return _over_time(found)
    return _by_strategy(figure, good) if good else None


def _by_strategy(figure: str, found: Sequence[dict[str, Any]]) -> str:
    import matplotlib.pyplot as plt

    second = "bytes" if figure == "fig14" else "jitter_ms"
    drawn, axes = plt.subplots(1, 2, figsize=(12, 4))
    places = list(dict.fromkeys(f"{one['cell']['workload']} {one['cell']['x']}" for one in found))
    for axis, measure in zip(axes, ("disruption_ms", second), strict=True):
        for strategy in dict.fromkeys(one["cell"]["strategy"] for one in found):
            mine = {
                f"{one['cell']['workload']} {one['cell']['x']}": max(one[measure] or 0, LEAST)
                for one in found
                if one["cell"]["strategy"] == strategy
            }
            axis.plot([places.index(p) for p in mine], list(mine.values()), "o-", label=strategy)
        axis.set(yscale="log", title=measure.replace("_", ", "))
        axis.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize=7)
    axes[0].legend(fontsize=7)
    return _saved(drawn, figure)


def _over_time(found: Sequence[dict[str, Any]]) -> str | None:
    import matplotlib.pyplot as plt

    rows = [one for one in found if one.get("over_time")]
    if not rows:
        return None
    drawn, axes = plt.subplots(len(rows), 1, figsize=(7, 2.2 * len(rows)), squeeze=False)
    for one, axis in zip(rows, axes[:, 0], strict=True):
        axis.plot(*zip(*one["over_time"], strict=True), color="green", label="latency, p99 ms")
        beside = axis.twinx()
        beside.plot(*zip(*one["bandwidth"], strict=True), "--", color="red", label="bytes between regions")
        axis.set(title=str(one["cell"]["x"]), xlabel="s")
        axis.legend(loc="upper left", fontsize=7)
        beside.legend(loc="upper right", fontsize=7)
    return _saved(drawn, "fig9")


def _saved(drawn: Any, figure: str) -> str:
    import matplotlib.pyplot as plt

    path = RESULTS / "falcon" / f"{figure}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.tight_layout()
    drawn.savefig(path, dpi=110)
    plt.close(drawn)
    return path.name
