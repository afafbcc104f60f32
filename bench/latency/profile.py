"""Where the processor time of many shapes goes: `python -m bench.latency.profile [SHAPES] [SECONDS]`.

Profiles the loops of all regions by CPU time of their threads, so that other work on the machine matters little, and
counts what a commit costs: plan runs, records that are appended, looks at logs. The load is that of `shapes.py`.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.latency import shapes
from bench.latency.load import quantiles
from godwit.engine.session import spark_session
from godwit.region.loop import RegionLoop

#: what is counted: (file, function) -> its name in the table
COUNTED = {
    ("runner.py", "_step"): "steps",
    ("commit_record.py", "commit_record"): "commits",
    ("direct.py", "run"): "plan runs",
    ("store.py", "try_append"): "records appended",
    ("inputs.py", "waiting"): "looks for news",
    ("kernel.py", "take_in"): "kernel: take in",
    ("kernel.py", "commit"): "kernel: commit",
    ("step.py", "run_through"): "operators",
    ("outbox.py", "publish"): "messages",
    ("core.py", "_deliver"): "delivery",
}


@contextmanager
def profiled() -> Iterator[list[cProfile.Profile]]:
    """The loops that are begun meanwhile, each with a profile of its own."""
    found: list[cProfile.Profile] = []
    run = RegionLoop._run

    def with_profile(loop: RegionLoop) -> None:
        found.append(cProfile.Profile(time.thread_time))
        found[-1].runcall(run, loop)

    RegionLoop._run = with_profile  # type: ignore[method-assign]
    try:
        yield found
    finally:
        RegionLoop._run = run  # type: ignore[method-assign]


def table(stats: Any) -> Iterator[dict[str, Any]]:
    """How often each was called, and its milliseconds, in all and for each commit."""
    known = [(name, stats[key]) for key in stats if (name := COUNTED.get((key[0].rpartition("/")[2], key[2])))]
    commits = max((one[0] for name, one in known if name == "commits"), default=0) or 1
    for name, (calls, _, _, seconds, _) in sorted(known, key=lambda entry: -entry[1][3]):
        yield {
            "what": name,
            "calls": calls,
            "calls a commit": round(calls / commits, 2),
            "ms a commit": round(seconds * 1000 / commits, 3),
        }


def main(count: int, seconds: float) -> None:
    with profiled() as profiles:
        found = shapes.run(spark_session(app="godwit bench"), count, seconds)
    stats = pstats.Stats(*profiles)
    for line in table(stats.stats):  # type: ignore[attr-defined]
        print(json.dumps(line))
    p50, p95 = quantiles(shapes.of_filters(found))
    print(json.dumps({"shapes": count, "p50 ms": p50, "p95 ms": p95, "cores": found.cores, "oracle": found.oracle}))
    stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main(*(int(sys.argv[1]) if sys.argv[1:] else 32, float(sys.argv[2]) if sys.argv[2:] else 20.0))
