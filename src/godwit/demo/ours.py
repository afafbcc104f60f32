"""The demo's first half: a fleet runs the queries while the trains hop."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.demo.meter import Meter, quantiles
from godwit.demo.outcome import Now, Outcome, Show
from godwit.demo.queries import SCHEMA, STREAM, Asked
from godwit.demo.world import DISORDER_MS, GAP_MS, Stage, first_counts
from godwit.mobility.driver import Driver, Feed, FleetTarget
from godwit.runtime.fleet import Fleet
from godwit.runtime.housekeeping import Retention
from godwit.runtime.oracle import Verdict

#: how often the view looks (seconds)
LOOK_EVERY = 0.5
NAME = "godwit"


def prepare(spark: SparkSession, folder: Path, stage: Stage, queries: list[Asked]) -> Fleet:
    """A fleet with the stage's ground, devices and queries, running."""
    fleet = Fleet(folder, spark, retention=Retention(keep=True))  # the oracle needs everything that was sent
    fleet.topology.add(stage.topology)
    fleet.stream(STREAM, SCHEMA, device="train", disorder=f"{DISORDER_MS} milliseconds")
    for device in stage.topology.devices:
        fleet.device(device, streams=[STREAM])
    for query in queries:
        fleet.submit(query.sql, query.name)
    fleet.start()
    return fleet


def warm_up(fleet: Fleet, stage: Stage) -> int:
    """One early count of every train, answered by every plan, so that the clock does not start on cold ones."""
    rows = first_counts(stage, time.time())
    fleet.push(STREAM, rows)
    fleet.process_available()
    return int(rows.num_rows)


def play(fleet: Fleet, stage: Stage, seed: int, show: Show) -> tuple[Driver, Meter]:
    """The trace, in real time, up to the last answer."""
    start = time.time()
    meter = Meter(fleet.crew, start, start + stage.calm_s)
    feed = Feed(STREAM, stage.payload(int(start * 1000), seed), DISORDER_MS)
    looked = [0.0]

    def watch(driver: Driver) -> None:
        if time.monotonic() - looked[0] >= LOOK_EVERY:
            looked[0] = time.monotonic()
            fleet.check()
            meter.look()
            show(_now(driver, meter))

    driver = Driver(
        stage.trace,
        [feed],
        FleetTarget(fleet),
        start_ms=int(start * 1000),
        gap_ms=GAP_MS,
        watch=watch,
        attached=dict(stage.trace.initial()),
    )
    driver.play()
    return driver, meter


def finish(fleet: Fleet, driver: Driver, meter: Meter, queries: list[Asked]) -> Outcome:
    """Close every window, stop, and ask the oracle."""
    fleet.close_sources()
    fleet.process_available()
    meter.look()
    fleet.stop()
    verdicts = tuple(_verdict(fleet, query.name) for query in queries)
    return Outcome(
        name=NAME,
        rows=driver.rows,
        results=sum(v.got for v in verdicts),
        calm=_pair(meter.calm),
        moving=_pair(meter.moving),
        handovers=driver.handovers,
        handled=driver.handovers,
        verdicts=verdicts,
        latency={query.name: _pair(meter.latency[query.name]) for query in queries},
        state_bytes=meter.state_bytes,
        note=f"{meter.batches:,} micro-batches",
    )


def _verdict(fleet: Fleet, name: str) -> Verdict:
    return fleet.query(name).verdict()


def _pair(values: list[float]) -> tuple[float | None, float | None]:
    low, high = quantiles(values, 0.5, 0.95)
    return low, high


def _now(driver: Driver, meter: Meter) -> Now:
    return Now(
        name=NAME,
        seconds=driver.t / 1000,
        of_seconds=driver.trace.duration_ms / 1000,
        attached=dict(driver.attached),
        last=tuple((t / 1000, *rest) for t, *rest in driver.log),  # type: ignore[misc]
        rows=driver.rows,
        results=meter.results,
        buffered=driver.buffered,
        handovers=driver.handovers,
        handled=driver.handovers,
        latency=quantiles(list(meter.recent), 0.5)[0],
        calm=quantiles(meter.calm, 0.5)[0],
        state_bytes=meter.state_bytes,
        batches=meter.batches,
    )
