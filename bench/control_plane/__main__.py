"""Control-plane time for one change at 10^2 to 10^5 sites with 10^3 and 10^4 queries.

python -m bench.control_plane            # writes docs/results/isqd/control_plane.json and .png
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bench.control_plane.measure import one_size
from bench.control_plane.world import SEED

mpl.use("Agg")

SITES = (100, 1_000, 10_000, 100_000)
QUERIES = (1_000, 10_000)
OUT = Path(__file__).parents[2] / "docs" / "results" / "isqd"


def main() -> None:
    rows: list[dict[str, Any]] = []
    sizes = [(sites, queries, "incremental") for queries in QUERIES for sites in SITES]
    for sites, queries, strategy in [
        *sizes,
        (10_000, 1_000, "holistic-serial"),
        (10_000, 1_000, "holistic-concurrent"),
    ]:
        rows.append(one_size(sites, queries, strategy))
        print(_line(rows[-1]), flush=True)
        write(rows)  # after each, so that a run that is cut short leaves what it has


def write(rows: list[dict[str, Any]]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    load = f"load average {os.getloadavg()[0]:.1f}"
    record = {
        "command": "python -m bench.control_plane",
        "seed": SEED,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, {load}",
        "target": "under 50 ms at 10^4 sites and 10^3 queries when one source moves",
        "rows": rows,
    }
    (OUT / "control_plane.json").write_text(json.dumps(record, indent=2) + "\n")
    draw(rows, OUT / "control_plane.png")


def _line(row: dict[str, Any]) -> str:
    times = f"median {row['median_ms']:.2f} ms, p95 {row['p95_ms']:.2f} ms (processor {row['cpu_p95_ms']:.2f} ms)"
    return f"{row['sites']:>7} sites {row['queries']:>6} queries {row['strategy']:<20} {times}"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for queries in QUERIES:
        mine = [r for r in rows if r["queries"] == queries and r["strategy"] == "incremental"]
        axes.plot(
            [r["sites"] for r in mine], [r["median_ms"] for r in mine], "o-", label=f"{queries:,} queries, median"
        )
        axes.plot([r["sites"] for r in mine], [r["p95_ms"] for r in mine], "x--", label=f"{queries:,} queries, p95")
    axes.axhline(50, color="grey", linewidth=0.8)
    axes.annotate("target: 50 ms", (SITES[0], 52), fontsize=8, color="grey")
    axes.set(xscale="log", yscale="log", xlabel="sites", ylabel="ms for one device move", ylim=(0.1, 200))
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
