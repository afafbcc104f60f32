"""The headline figures of plan changes that need no Spark, in under a minute; those of the runtime follow its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench._harness import headline
from bench.plan import model, spark, swapping
from bench.plan.settings import LOW, set1
from godwit.engine.session import spark_session


def figures() -> Iterator[dict[str, Any]]:
    """The optimiser on a load that swaps, parallel track's length, and intermediate rows in the model."""
    swap = swapping.run(3, seconds=480)
    yield headline(
        "optimiser: work of the best order over ours, migrations included",
        round(swap["work"], 3),
        1.0,
        0.9,
        note=f"simulated, selectivities swap every 60 s, 5,000 rows/s per stream; the orders alone "
        f"{swap['work without migrations']:.0%}, the rest is what {swap['changes']} changes cost by the constants of "
        f"forecast.py; throughput {swap['throughput']:.0%}",
    )
    track = model.parallel_track_s(set1(1000), 1)
    yield headline(
        "model: parallel track, s", track, 2.0, "2W +- 25 %", met=abs(track / 2.0 - 1) <= 0.25, note="Table 2, W = 1 s"
    )
    yield _intermediate()
    yield from spark.figures(spark_session(quick=True))


def _intermediate() -> dict[str, Any]:
    """Figure 13: what the new plan keeps against the old one, with every strategy in between."""
    runs = model.over_time(LOW, 20_000)
    equal = all(run["oracle"] == "equal" for run in runs.values())
    kept = {name: max(run["kept"]) for name, run in runs.items()}
    return headline(
        "model: intermediate rows at most, new plan over old",
        kept["new"],
        kept["old"],
        "< 1",
        met=kept["new"] < kept["old"],
        oracle="equal" if equal else "different",
        note="Figure 13; results of all strategies compared",
    )
