"""What the benches share: the machine's description, one form for results and tables, progress on standard error."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


def machine() -> dict[str, Any]:
    """What figures are measured on, and how busy it was with other things."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_before": [round(x, 1) for x in os.getloadavg()],
        "commit": _commit(),
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def describe(here: dict[str, Any]) -> str:
    """The machine in one line of a report."""
    return (
        f"{here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB, Python {here['python']}, load before "
        f"{here['load_before'][0]}, commit {here['commit']}, {here['at']}"
    )


def headline(experiment: str, ours: float, baseline: float, target: float | str, **more: Any) -> dict[str, Any]:
    """One headline figure. `ratio` is ours / baseline and `met` is ratio >= target, unless told otherwise."""
    ratio = round(ours / baseline, 3) if baseline else None
    figure = {"experiment": experiment, "ours": ours, "baseline": baseline, "ratio": ratio, "target": target}
    figure["met"] = ratio is not None and isinstance(target, int | float) and ratio >= target
    return {**figure, "oracle": "n/a", "note": "", **more}


def save(path: Path, result: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, default=str) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def say(text: str) -> None:
    """Progress, with the time of day, so that a long run can be followed."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def _cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"
