"""Headline figures of regions as processes; `python -m bench.quick regions`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench._harness import headline
from bench.regions.latency import both
from bench.regions.simulate import simulate


def figures() -> Iterator[dict[str, Any]]:
    threads, apart = both()
    for name in ("p50_ms", "p95_ms"):
        ratio = apart[name] / threads[name]
        yield headline(
            f"regions/latency {name}", round(apart[name], 1), round(threads[name], 1), "<= 2",
            ratio=round(ratio, 2), met=ratio <= 2, note="2 region processes against 2 threads, loopback, one hop",
        )  # fmt: skip
    note = "coordinator and 2 regions, until all have joined"
    start, memory = round(apart["start_s"], 1), round(apart["memory_mb"])
    yield headline("regions/start s", start, 60, "<= 60", met=start <= 60, note=note)
    yield headline("regions/memory MB", memory, 700, "<= 700", met=memory <= 700, note="a region, resident, with Java")
    told = simulate(5_000, 2_000, 100, hops=500)
    note = (
        f"{told['devices']} devices, {told['sites']} sites, 100 regions; {told['record_bytes_per_hop']:.0f} bytes a hop"
    )
    yield headline("regions/hop ms", round(told["hop_ms"], 2), 0, "none", met=None, note=note)
