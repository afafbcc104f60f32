"""One device move in a fleet of commit 75f46ee, command to published epoch: the "before" of docs/results/core.md.

    git worktree add /tmp/before 75f46ee && cd /tmp/before
    PYTHONPATH=src:. python .../docs/results/core/before_device_move.py

The control plane of bench/control_plane (10^3 queries, four devices each, seed 7) is put into a fleet that is not
started, so that only planning, publishing and saving are measured.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.control_plane.world import STREAM, build
from godwit.runtime.fleet import Fleet
from godwit.runtime.session import spark_session

from godwit.model.changes import DeviceMoved


def device_move(sites, queries=1000, moves=50, seed=7):
    rng = random.Random(seed)
    world = build(sites, queries)
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), spark_session(app="before", cores=1))
        fleet._declare(STREAM)
        fleet._plane = world.control
        fleet._sync("bench")
        seconds = []
        for _ in range(moves):
            change = DeviceMoved(rng.choice(world.devices), rng.choice(world.edges))
            began = time.perf_counter()
            fleet.change([change])
            seconds.append(time.perf_counter() - began)
    ms = sorted(1000 * s for s in seconds)
    return {"p50_ms": round(statistics.median(ms), 2), "p95_ms": round(ms[int(0.95 * len(ms))], 2)}


if __name__ == "__main__":
    found = {str(n): device_move(n, moves=20) for n in (100, 1000, 10_000)}
    json.dump(found, sys.stdout)
