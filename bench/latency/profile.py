"""What a micro-batch costs where many shapes run: `python -m bench.latency.profile [SHAPES] [PUSHES]`.

One thread pushes rows and steps all runners until nothing is left, again and again: so processor time counts, not what
else the machine does, and a step costs what it costs without others beside it. The rows are those of `shapes.py`. In
turns, rows that nobody waits for gather (`protocol/gathering.py`), as in a running fleet with ten pushes a second, or
do not.
"""

from __future__ import annotations

import cProfile
import datetime as dt
import gc
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.latency import shapes
from bench.latency.load import Load, fleet_of
from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.engine.session import spark_session
from godwit.region.runner import Runner

WARM, TURNS = 150, 2
#: what is counted: (file, function) -> its name in the table
COUNTED = {
    ("runner.py", "_step"): "steps",
    ("direct.py", "run"): "plan runs",
    ("store.py", "try_append"): "records appended",
    ("inputs.py", "waiting"): "looks for news",
    ("kernel.py", "take_in"): "kernel: take in",
    ("kernel.py", "commit"): "kernel: commit",
    ("step.py", "run_through"): "operators",
    ("outbox.py", "publish"): "messages",
    ("core.py", "_deliver"): "delivery",
}


def pushes(fleet: Fleet, devices: int) -> Callable[[bool], None]:
    """One push of 20 rows of the next device at a time, a tenth of a second after the one before; `gather`: what nobody
    waits for is left."""
    handles, number, at = [fleet.device(f"d{k}") for k in range(devices)], 0, time.time()

    def push(gather: bool) -> None:
        nonlocal number, at
        number, at = number + 1, at + 0.1
        times = [dt.datetime.fromtimestamp(at - 0.005 * (19 - i), dt.UTC) for i in range(20)]
        device = number % devices
        handles[device].push([{"device": f"d{device}", "value": 5 * i, "ts": ts} for i, ts in enumerate(times)])
        while sum(_stepped(runner, at if gather else None) for runner in fleet.pool.runners.values()):
            pass

    return push


def _stepped(runner: Runner, now: float | None) -> bool:
    """`now`: when rows may gather."""
    if not runner.waiting() or (now is not None and runner.gathers_until(now) is not None):
        return False
    return runner.step() is not None


class Used:
    """Processor time of this process and of Spark's, and what garbage collection took of it, from now on."""

    def __init__(self) -> None:
        self._jvm = next(child for child in psutil.Process().children(recursive=True) if "java" in child.name())
        self._python, self._java, self.collecting, self._began = time.process_time(), self._of_java(), 0.0, 0.0
        gc.callbacks.append(self._collects)

    def _of_java(self) -> float:
        times = self._jvm.cpu_times()
        return float(times.user + times.system)

    def _collects(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.collecting += time.perf_counter() - self._began

    def stop(self) -> None:
        gc.callbacks.remove(self._collects)
        self._python, self._java = time.process_time() - self._python, self._of_java() - self._java

    def each(self, count: int, what: str) -> dict[str, float]:
        spent = {"python": self._python, "java": self._java, "gc": self.collecting}
        return {f"{name} ms {what}": round(s * 1000 / count, 3) for name, s in spent.items()}


def table(stats: Any, commits: int) -> Iterator[dict[str, Any]]:
    """How often each was called, and its milliseconds (with the profiler's), for each commit."""
    known = [(name, stats[key]) for key in stats if (name := COUNTED.get((key[0].rpartition("/")[2], key[2])))]
    for name, (calls, _, _, seconds, _) in sorted(known, key=lambda entry: -entry[1][3]):
        yield {"what": name, "a commit": round(calls / commits, 2), "ms": round(seconds * 1000 / commits, 3)}


def main(count: int, rounds: int) -> None:
    queries, spark = shapes.shapes(count), spark_session(app="godwit bench")
    with tempfile.TemporaryDirectory() as folder:
        load = Load(queries, 1, at_once=True)
        with fleet_of(spark, Path(folder) / "fleet", load) as fleet:
            for name in queries:
                fleet.query(name).write_to(CallbackSink(len))
            push = pushes(fleet, load.devices)
            for _ in range(WARM):
                push(False)
            for gather in (True, False) * TURNS:
                before, used = fleet.pool.committed(), Used()
                for _ in range(rounds):
                    push(gather)
                used.stop()
                commits = fleet.pool.committed() - before
                found = {"shapes": count, "rows gather": gather, "commits a push": round(commits / rounds, 1)}
                print(
                    json.dumps({**found, **used.each(rounds, "a push"), **used.each(commits, "a commit")}), flush=True
                )
            before, profile = fleet.pool.committed(), cProfile.Profile(time.thread_time)
            profile.runcall(lambda: [push(True) for _ in range(rounds)])
            stats = pstats.Stats(profile)
            for line in table(stats.stats, fleet.pool.committed() - before):  # type: ignore[attr-defined]
                print(json.dumps(line))
            stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main(*(int(sys.argv[1]) if sys.argv[1:] else 32, int(sys.argv[2]) if sys.argv[2:] else 60))
