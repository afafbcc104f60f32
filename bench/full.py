"""Every experiment in full, one process per area; refreshes docs/results. Takes about an hour on two cores."""

from __future__ import annotations

import subprocess
import sys
import time

AREAS = ("core", "latency", "engine", "isqd", "mobility", "falcon", "placement", "sqpr")


def main() -> int:
    failed = []
    for area in AREAS:
        started = time.monotonic()
        print(f"== {area}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{area}"], check=False).returncode:
            failed.append(area)
        print(f"== {area}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
