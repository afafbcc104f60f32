"""Headline figures of regions as processes; `python -m bench.quick regions`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._harness import headline
from bench.regions.measure import beside, while_cut
from bench.regions.simulate import simulate

#: the full bench cuts a region off for 60 s
CUT_S = 10.0


def figures() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="godwit-regions-") as folder:
        yield from _beside(beside(Path(folder)))
        yield from _while_cut(while_cut(Path(folder), CUT_S))
    sim = simulate(5_000, 2_000, 100, hops=500)
    note = f"{sim['devices']} devices, {sim['sites']} sites, 100 regions; {sim['record_bytes_per_hop']:.0f} bytes a hop"
    yield headline("regions/hop ms", round(sim["hop_ms"], 2), 0, "none", met=None, note=note)


def _beside(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    threads, apart, oracle = told["embedded"], told["processes"], told["oracle"]
    what = "3 region processes, a coordinator and NATS against 3 threads over a folder; loopback, one hop"
    for name in ("p50_ms", "p95_ms"):
        ratio = apart[name] / threads[name]
        yield headline(
            f"regions/latency {name}", round(apart[name], 1), round(threads[name], 1), "<= 2",
            ratio=round(ratio, 2), met=ratio <= 2, oracle=oracle, note=what,
        )  # fmt: skip
    yield headline(
        "regions/rows per s", round(apart["rows_per_s"]), round(threads["rows_per_s"]), 0.8, oracle=oracle, note=what
    )
    ours, theirs = (round(one["rows_per_s_pipelined"]) for one in (apart, threads))
    yield headline(
        "regions/rows per s, pipelined", ours, theirs, 0.8,
        oracle=oracle, note=f"{what}; pushes do not wait for each other, in either",
    )  # fmt: skip
    start = round(told["start_s"], 1)
    yield headline(
        "regions/start s", start, 60, "<= 60", met=start <= 60, note="coordinator and 3 regions, until joined"
    )
    memory, after = (
        max(size for name, size in told[when].items() if name != "coordinator") for when in ("memory", "memory_after")
    )
    note = f"a small region, resident, with Java; {after} after a million rows as fast as they are taken"
    yield headline("regions/memory MB", memory, 700, "<= 700", met=memory <= 700, note=note)


def _while_cut(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cut, oracle = told["cut"], told["oracle"]
    others = cut["others_cut_p95_ms"] / cut["others_calm_p95_ms"]
    yield headline(
        "regions/others while one is cut off, p95 ms", round(cut["others_cut_p95_ms"], 1),
        round(cut["others_calm_p95_ms"], 1), "<= 1.2", ratio=round(others, 2), met=others <= 1.2, oracle=oracle,
        note=f"cut for {cut['cut_s']:.0f} s, from its store as well",
    )  # fmt: skip
    speed = round(cut["catch_up_speed"], 1)
    yield headline(
        "regions/catches up x", speed, 1, ">= 5", met=speed >= 5, oracle=oracle, note="seconds of rows per second"
    )
