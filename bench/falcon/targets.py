"""What the issue wants of the figures, beside what was measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Found = Sequence[dict[str, Any]]
#: workload -> the strategy that `auto` stands for, and the most disruption it may cause (ms): none where windows or
#: pairs can be merged later; half a round trip and two micro-batches where the source answers meanwhile
OURS = {
    "tm": ("falcon", 60.0), "nq5": ("delta", 0.0), "nq6": ("falcon", 60.0), "nq7": ("delta", 0.0),
    "nq8": ("delta", 0.0), "lr-tn": ("delta", 0.0), "lr-an": ("falcon", 60.0),
}  # fmt: skip
#: baseline -> how many times better ours is to be, in disruption and in jitter
TIMES = {"full-restart": 20, "partial-pause": 5, "on-demand": 5}
#: less is not told apart from nothing (ms)
LEAST_MS = 1.0


def rows(known: Mapping[str, Found]) -> list[list[str]]:
    """(figure, ours, beside, target, met)"""
    return [*_figure8(known.get("fig8", ())), *_beyond(known)]


def _figure8(found: Found) -> Iterator[list[str]]:
    cells = {(one["cell"]["workload"], one["cell"]["strategy"]): one for one in found if "disruption_ms" in one}
    for workload, (strategy, most) in OURS.items():
        ours = cells.get((workload, strategy))
        if ours is None:
            continue
        noise = cells.get((workload, "none"), {}).get("disruption_ms")
        held = ours["disruption_ms"]
        target = f"{most:g} ms"
        yield [f"{workload}: disruption, {strategy}", f"{held} ms", f"none: {noise} ms", target, _met(held <= most)]
        for baseline, times in TIMES.items():
            if (other := cells.get((workload, baseline))) is not None:
                yield _against(workload, strategy, baseline, ours, other, times)


def _against(
    workload: str, strategy: str, baseline: str, ours: Mapping[str, Any], other: Mapping[str, Any], times: int
) -> list[str]:
    names = ("disruption_ms", "jitter_ms")
    ratios = [other[name] / max(ours[name], LEAST_MS) for name in names]
    mine, theirs = (" / ".join(f"{one[name]:g}" for name in names) for one in (ours, other))
    told = f"{theirs} ms ({' / '.join(f'{ratio:.1f}x' for ratio in ratios)})"
    met = _met(all(ratio >= times for ratio in ratios))
    return [f"{workload}: both, {strategy} against {baseline}", f"{mine} ms", told, f"{times}x", met]


def _beyond(known: Mapping[str, Found]) -> Iterator[list[str]]:
    for one in known.get("migration_rate", ()):
        if one.get("ratio") is not None:
            name = f"{one['cell']['workload']}: p99 under {one['done_per_minute']} migrations a minute"
            met = _met(one["ratio"] <= 1.1 and one["done_per_minute"] >= 1000)
            beside = f"calm {one['calm_p99_ms']} ms ({one['ratio']}x)"
            yield [name, f"{one['p99_ms']} ms", beside, "1.1x at 1,000", met]
    for one in known.get("routing", ()):
        if one.get("ratio") is not None:
            name = f"micro-batch, {one['cell']['x']:,} keys placed one by one"
            beside = f"rest alone {one['rest_batch_ms']} ms ({one['ratio']}x)"
            yield [name, f"{one['batch_ms']} ms", beside, "1.5x", _met(one["ratio"] <= 1.5)]


def _met(holds: bool) -> str:
    return "yes" if holds else "no"
