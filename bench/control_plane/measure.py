"""Times of one change: one device moves to another site, which affects one query; from the event to the commit.

Wall time and, beside it, the processor time of the same calls: the two differ where other work shares the machine.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

from bench.control_plane.world import World, build
from godwit.control.events import Publish
from godwit.model.changes import DeviceMoved


def moves(world: World, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of `count` device moves, one after the other, by the wall clock and on the processor; sorted."""
    wall, cpu = [], []
    for _ in range(count):
        change = DeviceMoved(world.rng.choice(world.devices), world.rng.choice(world.edges))
        started, busy = time.perf_counter(), time.process_time()
        told = world.control.change([change])
        cpu.append((time.process_time() - busy) * 1000)
        wall.append((time.perf_counter() - started) * 1000)
        assert all(len(one.delta.placement) < 40 for one in told if isinstance(one, Publish)), "one query is affected"
    return sorted(wall), sorted(cpu)


def one_size(sites: int, queries: int, strategy: str = "incremental", count: int = 200) -> dict[str, Any]:
    """One world, built and measured; every placement is checked against the three conditions in the end."""
    gc.collect()
    started = time.perf_counter()
    world = build(sites, queries, strategy)
    built = time.perf_counter() - started
    gc.collect()  # what was built is not measured
    moves(world, 20)
    wall, cpu = moves(world, count)
    faults = world.control.planner.violations()
    return {
        "sites": sites,
        "queries": queries,
        "devices": len(world.devices),
        "instances": len(world.control.planner.plan.instances),
        "strategy": strategy,
        "changes": count,
        "build_s": round(built, 2),
        "submit_ms": round(built / queries * 1000, 3),
        "median_ms": round(statistics.median(wall), 3),
        "p95_ms": round(wall[int(0.95 * count)], 3),
        "max_ms": round(wall[-1], 3),
        "cpu_median_ms": round(statistics.median(cpu), 3),
        "cpu_p95_ms": round(cpu[int(0.95 * count)], 3),
        "cpu_max_ms": round(cpu[-1], 3),
        "violations": len(faults),
    }
