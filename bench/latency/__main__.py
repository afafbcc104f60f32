"""Every latency experiment in full: `python -m bench.latency` writes docs/results/latency.json and latency.md's table.

Each runs in a process of its own; where the issue asks for a ratio, once more with GODWIT_ENGINE=jobs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from bench._harness import RESULTS, describe, machine, save, say, table
from bench.quick import KEYS, line

#: what runs, and whether engine mode `jobs` is the baseline of its figures
EXPERIMENTS = {"program": True, "shapes": False, "steady": False, "queries": False, "idle": False}
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(EXPERIMENTS)}; without any, all")
    chosen = parser.parse_args().names or list(EXPERIMENTS)
    here = machine()
    figures = [figure for name in chosen for figure in _run(name)]
    for figure in figures:
        print(json.dumps(figure), flush=True)
    if len(chosen) == len(EXPERIMENTS):
        save(RESULTS / "latency.json", {"machine": here, "figures": figures})
        _write(figures, describe(here))
    return int(any(figure["experiment"].endswith("failed") for figure in figures))


def _run(name: str) -> list[dict[str, Any]]:
    say(name)
    figures = _figures(name, "auto")
    if EXPERIMENTS[name]:
        jobs = {figure["experiment"]: figure["ours"] for figure in _figures(name, "jobs")}
        for figure in figures:
            ours, other = figure["ours"], jobs.get(figure["experiment"])
            figure["baseline"] = other
            figure["ratio"] = round(other / ours, 2) if ours and other else None
            figure["note"] += "; baseline: engine mode `jobs`; ratio: baseline / ours"
    return figures


def _figures(name: str, engine: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", f"bench.latency.{name}"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "GODWIT_ENGINE": engine}
    )
    found = [line("latency", json.loads(text)) for text in done.stdout.splitlines() if text.startswith("{")]
    if done.returncode:
        found.append(line("latency", {"experiment": f"{name} failed", "note": f"exit code {done.returncode}"}))
    return found


def _write(figures: list[dict[str, Any]], where: str) -> None:
    """Put the table between the marks of docs/results/latency.md."""
    page = RESULTS / "latency.md"
    rows = [["**missed**" if f[n] is False else "" if f[n] is None else f[n] for n in KEYS] for f in figures]
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(
        "\n".join([before.rstrip(), "", BEGIN, f"{where}.", "", *table(KEYS, rows), END, after.lstrip("\n")])
    )


if __name__ == "__main__":
    sys.exit(main())
