"""Where results go: one JSON file an experiment under docs/results/sqpr, with the machine and the command."""

from __future__ import annotations

import json
import platform
import resource
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results" / "sqpr"


def save(name: str, data: dict[str, Any]) -> None:
    """Write one experiment."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    about = {"command": f"python -m bench.sqpr {name}", "machine": machine(), "peak_memory_mb": round(memory)}
    (FOLDER / f"{name}.json").write_text(json.dumps({**about, **data}, indent=1) + "\n")


def load(name: str) -> dict[str, Any] | None:
    """Read one experiment, if it was run."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def machine() -> str:
    """A line on the machine: timings mean little without it."""
    names = [line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or platform.machine()
    return f"{cpu}, {len(names) or '?'} cores, one used; Python {sys.version.split()[0]}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def figure(
    experiment: str, ours: float, baseline: float, target: str, met: bool, note: str = "", ratio: float | None = None
) -> dict[str, Any]:
    """A headline figure."""
    shown = round(ours / baseline, 4) if ratio is None and baseline else ratio
    return {
        "experiment": f"sqpr/{experiment}",
        "ours": ours,
        "baseline": baseline,
        "ratio": shown,
        "target": target,
        "met": bool(met),
        "oracle": "n/a",
        "note": note,
    }
