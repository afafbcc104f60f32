"""One cell on a fleet: play a stage under a redeployment strategy, and say what it cost and whether it was right."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.isqd import latency
from bench.isqd.figures import changes
from bench.isqd.inputs import ROOT, Cut, Stage
from bench.isqd.reconfigure import QueueTarget
from bench.isqd.workload import SCHEMA, STREAM, Asked, Readings
from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.mobility.driver import Driver, Feed

#: devices send so often
TICK_MS = 100
#: rows of so many seconds, in so many batches, come before the clock starts
WARM_UP_S, WARM_UPS = 0.2, 6


def play(
    spark: SparkSession, folder: Path, stage: Stage, cut: Cut, queries: list[Asked], strategy: str, rate: int
) -> dict[str, Any]:
    """Calm, changes, calm; then everything is answered, and the oracle asked."""
    shutil.rmtree(folder, ignore_errors=True)
    fleet = prepare(spark, folder, stage, queries, strategy)
    try:
        warm_up(fleet, stage, rate)
        start = time.time()
        target, follower = QueueTarget(fleet, "device"), latency.Follower(fleet, start)

        def watch(_: Driver) -> None:
            fleet.check()
            follower.look_if_due()

        driver = Driver(
            stage.trace,
            [Feed(STREAM, Readings(int(start * 1000), rate), 0)],
            target,
            start_ms=int(start * 1000),
            tick_ms=min(TICK_MS, round(cut.every * 1000)),
            watch=watch,
            attached=dict(stage.trace.initial()),
        )
        driver.play()
        over = time.time()
        target.end()
        fleet.close_sources()
        fleet.process_available()
        follower.look()
    finally:
        fleet.stop()
    verdicts = [fleet.query(query.name).verdict() for query in queries]
    result = {
        **changes([(b.arrived, b.in_force) for b in target.batches], over),
        **deployment(target),
        "latency": follower.found.summary(cut.calm, cut.changes),
        "rows": driver.rows,
        "late_s": round(max(over - start - cut.total, 0.0), 2),
        "micro_batches": latency.micro_batches(fleet, start),
        "oracle": "equal" if all(v.equal for v in verdicts) else "different",
        "verdicts": [str(v) for v in verdicts if not v.equal],
    }
    shutil.rmtree(folder, ignore_errors=True)
    return result


def prepare(spark: SparkSession, folder: Path, stage: Stage, queries: list[Asked], strategy: str) -> Fleet:
    """A running fleet with the stage's ground and queries."""
    fleet = Fleet(folder, spark, redeployment=strategy, retention=Retention(keep=True))
    fleet.topology.add(stage.topology)
    fleet.stream(STREAM, SCHEMA, device="device")
    for device in stage.topology.devices:
        fleet.device(device, streams=[STREAM])
    for query in queries:
        fleet.submit(query.sql, query.name, sink=ROOT)  # as published: results leave in the cloud
    fleet.start()
    return fleet


def warm_up(fleet: Fleet, stage: Stage, rate: int) -> None:
    """Plans and the JVM get warm before the clock starts."""
    for rows in first_rows(stage, rate, WARM_UPS):
        fleet.push(STREAM, rows)
        fleet.process_available()


def first_rows(stage: Stage, rate: int, batches: int = 1) -> Iterator[pa.Table]:
    """A little of what every device will send, from just before now; none behind the one before it."""
    span = int(WARM_UP_S * 1000)
    payload = Readings(int(time.time() * 1000) - batches * span, rate)
    for number in range(batches):
        tables = [payload.batch(device, number * span, (number + 1) * span) for device in stage.trace.devices]
        yield pa.concat_tables(tables)


def deployment(target: QueueTarget) -> dict[str, Any]:
    """Aggregated deployment latency: everything the control plane was busy with, split as the paper does."""
    done = target.handled
    return {
        "device_moves": sum(len(batch.moves) for batch in target.batches),
        "reconfigurations": len(done),
        "placement_s": round(sum(h.placement for h in done), 4),
        "deployment_s": round(sum(h.deployment for h in done), 4),
        "aggregated_s": round(sum(h.placement + h.deployment for h in done), 4),
    }
