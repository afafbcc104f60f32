"""The demo's second half: the same trace and rows against plain Spark queries that are restarted at hand-overs."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

from godwit.api.oracle import compare
from godwit.baselines.native_restart import NativeRestart, NativeStream
from godwit.demo.meter import quantiles
from godwit.demo.ours import LOOK_EVERY
from godwit.demo.outcome import DemoOutcome, Now, Show
from godwit.demo.queries import SCHEMA, STREAM, Asked
from godwit.demo.world import DISORDER_MS, GAP_MS, DemoStage, first_counts
from godwit.errors import DeploymentError
from godwit.ids import QueryId
from godwit.mobility.driver import Driver, Feed

NAME = "native-restart"


#: for so long plain Spark may read what is left (seconds): the demonstration takes under three minutes
CATCH_UP_S = 35.0


def play(
    spark: SparkSession,
    folder: Path,
    stage: DemoStage,
    queries: list[Asked],
    seed: int,
    show: Show,
    say: Callable[[str], None] = lambda what: None,
) -> DemoOutcome:
    """Warm up, play the trace in real time, read what is left, compare with the batch."""
    # A query that is stopped in the middle of a call would print a stack trace for it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    watermark = f"{DISORDER_MS + GAP_MS} milliseconds"
    native = NativeRestart(spark, folder, NativeStream(STREAM, SCHEMA, "ts", "train", watermark))
    for query in queries:
        native.add(query.name, query.sql, query.trains)
    initial = dict(stage.trace.initial())
    native.start(initial)
    native.push(STREAM, first_counts(stage, time.time()), initial)
    for started in native.queries:
        assert started.running is not None
        started.running.processAllAvailable()
    say("go")
    driver, start = _drive(native, stage, seed, show, initial)
    handled = native.handled
    say("reading what is left, asking the oracle")
    caught_up = native.end(timeout=CATCH_UP_S)
    if not caught_up:
        say(f"native-restart has not read everything within {CATCH_UP_S:g} s; it is judged by what it has")
    found = _outcome(native, driver, start + stage.calm_s, handled, queries)
    return found if caught_up else replace(found, note=f"{found.note}, not caught up")


def _drive(
    native: NativeRestart, stage: DemoStage, seed: int, show: Show, initial: dict[str, str]
) -> tuple[Driver, float]:
    start, looked = time.time(), [0.0]

    def watch(driver: Driver) -> None:
        if native.failure is not None:
            msg = f"a plain Spark query failed at its restart: {native.failure}"
            raise DeploymentError(msg) from native.failure
        if time.monotonic() - looked[0] >= LOOK_EVERY:
            looked[0] = time.monotonic()
            show(_now(native, driver, start + stage.calm_s))

    feed = Feed(STREAM, stage.payload(int(start * 1000), seed), DISORDER_MS)
    driver = Driver(
        stage.trace, [feed], native, start_ms=int(start * 1000), gap_ms=GAP_MS, watch=watch, attached=initial
    )
    driver.play()
    return driver, start


def _latencies(native: NativeRestart, since_ms: int) -> dict[str, list[tuple[float, float]]]:
    """query -> (wall seconds of emission, latency in ms) of every result of a later time than the warm-up's"""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for query in native.queries:
        for wall, rows in list(query.batches.values()):
            if len(rows):
                at = pd.to_datetime(rows["at"]).astype("int64") / _per_ms(rows["at"])
                found[query.name] += [(wall, wall * 1000 - float(x)) for x in at if since_ms <= x <= wall * 1000]
    return found


def _per_ms(column: pd.Series[pd.Timestamp]) -> float:
    return {"ns": 1e6, "us": 1e3, "ms": 1.0}[pd.to_datetime(column).dt.unit]


def _pair(values: list[float]) -> tuple[float | None, float | None]:
    low, high = quantiles(values, 0.5, 0.95)
    return low, high


def _outcome(
    native: NativeRestart, driver: Driver, calm_until: float, handled: int, queries: list[Asked]
) -> DemoOutcome:
    latencies = _latencies(native, driver.start_ms)
    every = [pair for found in latencies.values() for pair in found]
    verdicts = []
    for query, asked in zip(native.queries, queries, strict=True):
        want = native.oracle(asked.sql)
        have = native.results(query)
        verdicts.append(compare(QueryId(query.name), want, want.iloc[:0] if have is None else have))
    return DemoOutcome(
        name=NAME,
        rows=driver.rows,
        results=sum(v.got for v in verdicts),
        calm=_pair([ms for wall, ms in every if wall < calm_until]),
        moving=_pair([ms for wall, ms in every if wall >= calm_until]),
        handovers=driver.handovers,
        handled=handled,
        verdicts=tuple(verdicts),
        latency={name: _pair([ms for _, ms in found]) for name, found in latencies.items()},
        restarts=native.restarts,
        note=f"{sum(len(q.batches) for q in native.queries):,} micro-batches",
    )


def _now(native: NativeRestart, driver: Driver, calm_until: float) -> Now:
    every = [pair for found in _latencies(native, driver.start_ms).values() for pair in found]
    recent = sorted(every)[-100:]
    return Now(
        name=NAME,
        seconds=driver.t / 1000,
        of_seconds=driver.trace.duration_ms / 1000,
        attached=dict(driver.attached),
        last=tuple((t / 1000, *rest) for t, *rest in driver.log),  # type: ignore[misc]
        rows=driver.rows,
        results=len(every),
        buffered=driver.buffered,
        handovers=driver.handovers,
        handled=native.handled,
        latency=quantiles([ms for _, ms in recent], 0.5)[0],
        calm=quantiles([ms for wall, ms in every if wall < calm_until], 0.5)[0],
        state_bytes=0,
        batches=sum(len(query.batches) for query in native.queries),
    )
