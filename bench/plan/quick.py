"""The headline figures of plan changes that need no Spark, in under a minute; those of the runtime follow its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench._harness import headline
from bench.plan import model, swapping
from bench.plan.settings import LOW, set1


def figures() -> Iterator[dict[str, Any]]:
    """The optimiser on a load that swaps, parallel track's length, and the extra work of each strategy in the model."""
    swap = swapping.run(3, seconds=480)
    yield headline(
        "optimiser: throughput of the best order",
        round(swap["throughput"], 3),
        1.0,
        0.9,
        note=f"simulated, selectivities swap every 60 s; work {swap['work']:.0%} of the oracle's, migrations included",
    )
    track = model.parallel_track_s(set1(1000), 1)
    yield headline(
        "model: parallel track, s", track, 2.0, "2W +- 25 %", met=abs(track / 2.0 - 1) <= 0.25, note="Table 2, W = 1 s"
    )
    yield from _extra_work()


def _extra_work() -> Iterator[dict[str, Any]]:
    """Pairs looked at beyond a run that has the old plan before the change and the new one after it."""
    runs = model.over_time(LOW, 20_000)
    calm = runs["moving-state"]["probed"]
    equal = all(run["oracle"] == "equal" for run in runs.values())
    ours, theirs = (max(runs[name]["probed"] - calm, 0) for name in ("background", "parallel-track"))
    yield headline(
        "model: extra pairs, background over parallel track",
        ours,
        theirs,
        "< 1",
        met=ours < theirs,
        oracle="equal" if equal else "different",
        note="Table 2, Section 6.3 low; beyond moving state; 0.5 s of building",
    )
    kept = {name: max(run["kept"]) for name, run in runs.items()}
    yield headline(
        "model: intermediate rows at most, new plan over old",
        kept["new"],
        kept["old"],
        "< 1",
        met=kept["new"] < kept["old"],
        note="Figure 13",
    )
