"""The headline figures of every area, one JSON object a line, in under six minutes.

Each area runs in a process of its own: a fresh Spark session, no other area's memory, and one that fails (or takes too
long) is reported as a figure that was not met, beside the others. `--save` also writes docs/results/quick.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from bench._harness import RESULTS, describe, machine, table

#: area -> how long it may take (seconds)
AREAS = {"engine": 160, "isqd": 110, "mobility": 75, "placement": 75, "sqpr": 90}


def main(keep: bool = False) -> int:
    here, missed = machine(), 0
    told: list[dict[str, object]] = []
    for area, limit in AREAS.items():
        started = time.monotonic()
        program = (
            f"import json\nfrom bench.{area}.quick import figures\nfor f in figures(): print(json.dumps(f), flush=True)"
        )
        try:
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, timeout=limit, check=False
            )
            lines, error = done.stdout.splitlines(), done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except subprocess.TimeoutExpired as late:
            lines = (late.stdout or b"").decode().splitlines() if isinstance(late.stdout, bytes) else []
            error = [f"not finished after {limit} s"]
        figures = [line for line in lines if line.startswith("{")]
        for line in figures:
            print(line, flush=True)
            told.append(json.loads(line))
        if error:
            missed += 1
            told.append(_failed(area, " ".join(error)))
            print(json.dumps(told[-1]), flush=True)
        print(f"{area}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    if keep:
        (RESULTS / "quick.md").write_text(page(told, describe(here)))
    return 1 if missed else 0


def page(figures: list[dict[str, object]], where: str) -> str:
    """All figures as one table; what missed its target stands out."""
    names = ("experiment", "ours", "baseline", "ratio", "target", "met", "oracle", "note")
    rows = [["**missed**" if f[n] is False else "" if f[n] is None else f[n] for n in names] for f in figures]
    good = sum(bool(f["met"]) for f in figures)
    lines = ["# Headline figures", "", f"`python -m bench.quick --save`; {where}.", ""]
    lines += [f"{good} of {sum(f['met'] is not None for f in figures)} targets were met in this run.", ""]
    return "\n".join([*lines, *table(names, rows)])


def _failed(area: str, reason: str) -> dict[str, object]:
    return {
        "experiment": f"{area}/failed", "ours": None, "baseline": None, "ratio": None, "target": None, "met": False,
        "oracle": "n/a", "note": reason[:300],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main("--save" in sys.argv[1:]))
