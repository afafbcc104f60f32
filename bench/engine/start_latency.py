"""How soon a new query of a known shape answers, and what its coming does to the others.

The fleet runs; devices push rows twice a second; queries of the shape are there already. Then queries are submitted,
one every few micro-batches. For each: the number of micro-batches that began after its submission, up to the first
that holds an answer of it (`with_running`: and the one that was under way). For the others: the p95 of the time from
a row's entry to its commit, before and while queries come.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from bench._harness import say
from bench._memory import peak_memory
from bench.engine import data, ground
from godwit.api.fleet import Fleet
from godwit.model.plan import QUERY
from godwit.region.runner import Runner
from godwit.storage.log import Segment

SQL = "SELECT device, value + {plus} AS more, ts FROM readings WHERE value >= {least}"
STREAM = data.Stream("readings", keys=1_000, rate=20_000)
ROWS, EVERY_S, WARM_S = 5_000, 0.5, 20.0
#: no new query may make the others' p95 worse than by so much: what a quiet run varies by itself
TOLERANCE = 1.25


def measure(spark: SparkSession, work: Path, old: int = 20, new: int = 20, quiet_s: float = 20.0) -> dict[str, Any]:
    """`old` queries run; then `new` ones come, spread over as long a time again."""
    with peak_memory() as peak, ground.fleet(spark, work, ["readings"], max_rows=1_000_000) as fleet:
        for number in range(old):
            fleet.submit(SQL.format(plus=number, least=900), f"old{number}")
        runner = ground.runner_of(fleet, "old0")
        fleet.start()
        done = threading.Event()
        pusher = threading.Thread(target=_push, args=(fleet, done), daemon=True)
        pusher.start()
        time.sleep(WARM_S)  # plans compile, the first segments come
        begin = runner.commits.last
        time.sleep(quiet_s)
        quiet_end = runner.commits.last
        waits, submits = _newcomers(fleet, runner, new, quiet_s)
        end = runner.commits.last
        done.set()
        pusher.join()
        fleet.process_available()
        answers = _first_answers(runner, quiet_end)
        metrics = {number: record["metrics"] for number, record in runner.commits.after(begin)}
    shutil.rmtree(work)
    before = [ms for n, ms in _latencies(metrics) if n <= quiet_end]
    during = [ms for n, ms in _latencies(metrics) if quiet_end < n <= end]
    answered = {name: wait for name, wait in waits.items() if name in answers}
    batches = [_begun_since(metrics, at, answers[name]) for name, (at, _) in answered.items()]
    running = {"with_running": [answers[name] - last for name, (_, last) in answered.items()]}
    return _result(batches, new, before, during, submits) | running | {"memory": peak.to_json()}


def _latencies(metrics: Mapping[int, dict[str, Any]]) -> list[tuple[int, float]]:
    return [(n, m["latency_ms"]) for n, m in metrics.items() if m["latency_ms"] is not None]


def _begun_since(metrics: Mapping[int, dict[str, Any]], at: float, answer: int) -> int:
    """Micro-batches that began after a moment, up to the one that answered."""
    return sum(n <= answer and m["wall"] - m["took_ms"] / 1000 > at for n, m in metrics.items())


def _result(
    batches: list[int], new: int, before: list[float], during: list[float], submits: list[float]
) -> dict[str, Any]:
    p95 = {
        "before_ms": round(float(np.percentile(before, 95)), 1),
        "during_ms": round(float(np.percentile(during, 95))),
    }
    say(f"  answers after {batches} micro-batches; p95 of the others {p95['before_ms']} -> {p95['during_ms']} ms")
    return {
        "micro_batches_to_answer": batches,
        "worst": max(batches, default=None),
        "all_answered": len(batches) == new,
        "submit_ms_median": round(float(np.median(submits)), 1),
        "p95": p95,
        "p50": {"before_ms": round(float(np.median(before)), 1), "during_ms": round(float(np.median(during)), 1)},
        "micro_batches": [len(before), len(during)],
        "met_start": len(batches) == new and max(batches) <= 2,
        "met_p95": p95["during_ms"] <= TOLERANCE * p95["before_ms"],
        "tolerance": TOLERANCE,
    }


def _push(fleet: Fleet, done: threading.Event) -> None:
    for table in data.batches(STREAM, ROWS, 10_000):
        if done.wait(EVERY_S):
            return
        fleet.push("readings", table)


def _newcomers(
    fleet: Fleet, runner: Runner, new: int, seconds: float
) -> tuple[dict[str, tuple[float, int]], list[float]]:
    """Submit them; name -> (when the submission was through, the last commit then), and how long each took."""
    waits, submits = {}, []
    for number in range(new):
        name, began = f"new{number}", time.perf_counter()
        fleet.submit(SQL.format(plus=1_000 + number, least=900), name)
        submits.append(1000 * (time.perf_counter() - began))
        waits[name] = (time.time(), runner.commits.last)
        time.sleep(seconds / new)
    time.sleep(4 * EVERY_S)
    return waits, submits


def _first_answers(runner: Runner, after: int) -> dict[str, int]:
    """query -> the number of the first commit past `after` that holds a result of it."""
    first: dict[str, int] = {}
    for number, record in runner.commits.after(after):
        for segment in record["results"]:
            for table in Segment.from_json(segment, runner.store).tables([QUERY]):
                for name in table.column(QUERY).unique().to_pylist():
                    first.setdefault(name, number)
    return first
