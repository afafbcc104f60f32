"""Times of one change: one device moves to another site, which affects one query; from the event to the commit."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

from bench.control_plane.world import World, build
from godwit.deployment.events import Publish
from godwit.model.changes import DeviceMoved


def moves(world: World, count: int) -> list[float]:
    """Milliseconds of `count` device moves, one after the other."""
    taken = []
    for _ in range(count):
        change = DeviceMoved(world.rng.choice(world.devices), world.rng.choice(world.edges))
        started = time.perf_counter()
        told = world.control.change([change])
        taken.append((time.perf_counter() - started) * 1000)
        assert all(len(one.delta.placement) < 40 for one in told if isinstance(one, Publish)), "one query is affected"
    return taken


def one_size(sites: int, queries: int, strategy: str = "incremental", count: int = 200) -> dict[str, Any]:
    """One world, built and measured; every placement is checked against the three conditions in the end."""
    gc.collect()
    started = time.perf_counter()
    world = build(sites, queries, strategy)
    built = time.perf_counter() - started
    gc.collect()  # what was built is not measured
    moves(world, 20)
    taken = sorted(moves(world, count))
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
        "median_ms": round(statistics.median(taken), 3),
        "p95_ms": round(taken[int(0.95 * len(taken))], 3),
        "max_ms": round(taken[-1], 3),
        "violations": len(faults),
    }
