"""Every experiment in full, one process per area; refreshes docs/results. Takes some hours on two cores.

python -m bench.full                # all areas
python -m bench.full falcon plan    # some
"""

from __future__ import annotations

import subprocess
import sys
import time

#: area -> arguments that make it write its page
AREAS: dict[str, tuple[str, ...]] = {
    "core": ("--save",),
    **dict.fromkeys(("latency", "engine", "isqd", "mobility", "falcon", "plan", "sql", "service"), ()),
    **dict.fromkeys(("regions", "placement", "sqpr", "peers"), ()),
}


def main(asked: list[str]) -> int:
    if unknown := set(asked) - AREAS.keys():
        print(f"there is no area {', '.join(sorted(unknown))}; areas: {', '.join(AREAS)}", file=sys.stderr)
        return 2
    failed = []
    for area in asked or AREAS:
        started = time.monotonic()
        print(f"== {area}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{area}", *AREAS[area]], check=False).returncode:
            failed.append(area)
        print(f"== {area}: {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
