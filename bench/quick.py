"""The headline figures of every area, one JSON object a line, in under six minutes.

Each area runs in a process of its own: a fresh Spark session, no other area's memory, and one that fails (or takes too
long) is reported as a figure that was not met, beside the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

#: area -> how long it may take (seconds)
AREAS = {"engine": 160, "isqd": 110, "mobility": 75, "placement": 75, "sqpr": 90}


def main() -> int:
    missed = 0
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
        if error:
            missed += 1
            print(json.dumps(_failed(area, " ".join(error))), flush=True)
        print(f"{area}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 1 if missed else 0


def _failed(area: str, reason: str) -> dict[str, object]:
    return {
        "experiment": f"{area}/failed", "ours": None, "baseline": None, "ratio": None, "target": None, "met": False,
        "oracle": "n/a", "note": reason[:300],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
