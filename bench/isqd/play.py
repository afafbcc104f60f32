"""One cell on a fleet: play a stage under a redeployment strategy, and say what it cost and whether it was right."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.isqd import latency
from bench.isqd.inputs import Cut, Stage
from bench.isqd.reconfigure import QueueTarget
from bench.isqd.workload import SCHEMA, STREAM, Asked, Readings
from godwit.mobility.driver import Driver, Feed
from godwit.runtime.fleet import Fleet
from godwit.runtime.housekeeping import Retention

#: devices send so often
TICK_MS = 100
#: plans and the JVM get warm before the clock starts: rows of so many seconds, in so many batches
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
        target = QueueTarget(fleet, "device")
        driver = Driver(
            stage.trace,
            [Feed(STREAM, Readings(int(start * 1000), rate), 0)],
            target,
            start_ms=int(start * 1000),
            tick_ms=TICK_MS,
            watch=lambda _: fleet.check(),
            attached=dict(stage.trace.initial()),
        )
        driver.play()
        over = time.time()
        target.end()
        fleet.close_sources()
        fleet.process_available()
    finally:
        fleet.stop()
    verdicts = [fleet.query(query.name).verdict() for query in queries]
    result = {
        **handled(target, over),
        "latency": latency.of_fleet(fleet, start).summary(cut.calm, cut.changes),
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
        fleet.submit(query.sql, query.name)
    fleet.start()
    return fleet


def warm_up(fleet: Fleet, stage: Stage, rate: int) -> None:
    import pyarrow as pa

    for _ in range(WARM_UPS):
        payload = Readings(int((time.time() - WARM_UP_S) * 1000), rate)
        span = int(WARM_UP_S * 1000)
        fleet.push(STREAM, pa.concat_tables([payload.batch(device, 0, span) for device in stage.trace.devices]))
        fleet.process_available()


def handled(target: QueueTarget, over: float) -> dict[str, Any]:
    """Aggregated deployment latency, and how many of the changes were in force when the time was over."""
    done = [batch for batch in target.batches if batch.in_force is not None and batch.in_force <= over]
    following = [b.arrived for b in target.batches[1:]] + [over]
    in_time = [b.in_force is not None and b.in_force <= then for b, then in zip(target.batches, following, strict=True)]
    waits = sorted(b.in_force - b.arrived for b in target.batches if b.in_force is not None)
    return {
        "changes": len(target.batches),
        "handled": len(done),
        "before_the_next": sum(in_time),
        "device_moves": sum(len(batch.moves) for batch in target.batches),
        "reconfigurations": len(target.handled),
        "placement_s": round(sum(h.placement for h in target.handled), 4),
        "deployment_s": round(sum(h.deployment for h in target.handled), 4),
        "aggregated_s": round(sum(h.placement + h.deployment for h in target.handled), 4),
        "change_p50_ms": round(waits[len(waits) // 2] * 1000, 1) if waits else None,
        "change_p95_ms": round(waits[int(len(waits) * 0.95)] * 1000, 1) if waits else None,
    }
