"""The demo's first half: a fleet runs the queries while the trains hop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.api.oracle import Verdict
from godwit.demo.meter import LatencyMeter, quantiles
from godwit.demo.outcome import DemoOutcome, Now, Show
from godwit.demo.queries import SCHEMA, STREAM, Asked
from godwit.demo.world import DISORDER_MS, GAP_MS, DemoStage, first_counts
from godwit.maintenance.housekeeping import Retention
from godwit.mobility.driver import Cue, Driver, Feed, FleetTarget

#: how often the view looks (seconds)
LOOK_EVERY = 0.5
NAME = "godwit"


class Counted(FleetTarget):
    """Knows which hand-overs are in force: those whose epoch every runner works under."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._epochs: list[int] = []
        self._seen = {str(device) for device, site in fleet.deployment.devices.items() if site is not None}

    def move(self, moves: Sequence[Cue]) -> None:
        super().move(moves)
        arrived = {cue.device for cue in moves if cue.site is not None}
        self._epochs += [int(self._fleet.deployment.epoch)] * len(arrived & self._seen)
        self._seen |= arrived

    @property
    def handled(self) -> int:
        runners = list(self._fleet.pool.runners.values())
        adopted = min((int(runner.deployment.epoch) for runner in runners), default=0)
        return sum(epoch <= adopted for epoch in self._epochs)


def prepare(spark: SparkSession, folder: Path, stage: DemoStage, queries: list[Asked]) -> Fleet:
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


def warm_up(fleet: Fleet, stage: DemoStage) -> int:
    """One early count of every train, answered by every plan, so that the clock does not start on cold ones."""
    rows = first_counts(stage, time.time())
    fleet.push(STREAM, rows)
    fleet.process_available()
    return int(rows.num_rows)


def play(fleet: Fleet, stage: DemoStage, seed: int, show: Show) -> tuple[Driver, LatencyMeter, int]:
    """The trace, in real time; with how many hand-overs were in force when it was over."""
    start = time.time()
    meter = LatencyMeter(fleet.pool, start, start + stage.calm_s)
    feed = Feed(STREAM, stage.payload(int(start * 1000), seed), DISORDER_MS)
    looked, target = [0.0], Counted(fleet)

    def watch(driver: Driver) -> None:
        if time.monotonic() - looked[0] >= LOOK_EVERY:
            looked[0] = time.monotonic()
            fleet.check()
            meter.look()
            show(_now(driver, meter, target.handled))

    driver = Driver(
        stage.trace,
        [feed],
        target,
        start_ms=int(start * 1000),
        gap_ms=GAP_MS,
        watch=watch,
        attached=dict(stage.trace.initial()),
    )
    driver.play()
    return driver, meter, target.handled


def finish(fleet: Fleet, driver: Driver, meter: LatencyMeter, handled: int, queries: list[Asked]) -> DemoOutcome:
    """Close every window, stop, and ask the oracle."""
    fleet.close_sources()
    fleet.process_available()
    meter.look()
    fleet.stop()
    verdicts = tuple(_verdict(fleet, query.name) for query in queries)
    return DemoOutcome(
        name=NAME,
        rows=driver.rows,
        results=sum(v.got for v in verdicts),
        calm=_pair(meter.calm),
        moving=_pair(meter.moving),
        handovers=driver.handovers,
        handled=handled,
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


def _now(driver: Driver, meter: LatencyMeter, handled: int) -> Now:
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
        handled=handled,
        latency=quantiles(list(meter.recent), 0.5)[0],
        calm=quantiles(meter.calm, 0.5)[0],
        state_bytes=meter.state_bytes,
        batches=meter.batches,
    )
