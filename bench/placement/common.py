"""What the placement experiments share: timing, files, tables, pictures."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from godwit.placement.problem.problem import Problem
from godwit.placement.search.base import Options, SearchResult, prepare, search

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
FOLDER = RESULTS / "placement"
THREADS = 2
SEED = 0

#: the paper's workflows and network sizes
WORKFLOWS = ("pred", "train", "stats", "etl")
SIZES = (7, 15, 31, 127, 1023, 2047)


@dataclass(frozen=True)
class Timed:
    """An answer and how long it took, best and median of some repeats."""

    answer: SearchResult
    best_ms: float
    median_ms: float


def timed(problem: Problem, options: Options, repeats: int = 5) -> Timed:
    """Repeat a search; compiling and loading happen before."""
    prepare(options.name)
    _ = problem.arrays
    times = []
    for _attempt in range(repeats):
        started = time.perf_counter()
        answer = search(problem, options)
        times.append((time.perf_counter() - started) * 1000)
    return Timed(answer, min(times), statistics.median(times))


def machine() -> dict[str, Any]:
    """Where these figures come from."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "seed": SEED,
        "threads": THREADS,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    names = (
        [x.split(":")[1].strip() for x in path.read_text().splitlines() if x.startswith("model name")]
        if path.is_file()
        else []
    )
    return names[0] if names else platform.processor()


def figure(
    name: str,
    ours: float,
    target: float | None,
    *,
    baseline: float | None = None,
    higher: bool = False,
    oracle: str = "n/a",
    note: str = "",
    digits: int = 3,
) -> dict[str, Any]:
    """One headline figure. `higher`: more is better; ratio is always 'times better than the baseline'."""
    ratio = None
    if baseline is not None and ours:
        ratio = round(ours / baseline if higher else baseline / ours, 1)
    met = None if target is None else (ours >= target if higher else ours <= target)
    return {
        "experiment": f"placement/{name}",
        "ours": round(ours, digits),
        "baseline": baseline,
        "ratio": ratio,
        "target": target,
        "met": met,
        "oracle": oracle,
        "note": note,
    }


def save(name: str, body: Any) -> None:
    """docs/results/placement/NAME.json."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({"machine": machine(), "rows": body}, indent=1) + "\n")


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else str(value)


def picture(name: str, draw: Callable[[Any], None], *, columns: int = 1, rows: int = 1) -> None:
    """docs/results/placement/NAME.png."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    FOLDER.mkdir(parents=True, exist_ok=True)
    drawing, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.1 * rows), squeeze=False)
    draw(axes)
    drawing.tight_layout()
    drawing.savefig(FOLDER / f"{name}.png", dpi=110)
    plt.close(drawing)
