"""The metronome: a Structured Streaming query that calls a runner's steps, one for each (region, shape).

The streaming query brings Spark's scheduling, its listener and its names; its source only ticks. What was read, under
which epoch, with which state and outputs stands in the runner's own atomic commit record, so Spark's offsets need not
be durable: asynchronous progress tracking saves 35 of 50 ms a micro-batch.
"""

from __future__ import annotations

import logging
import threading
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from godwit.region.runner import Runner
from godwit.storage.names import checkpoint

log = logging.getLogger(__name__)

#: how often a waiting runner looks at its logs, and how long a tick lasts (seconds): a tick of its own for every
#: micro-batch would cost each 15 ms, and a call of the listener
LOOK_EVERY, TICK_LASTS = 0.01, 1.0


class RunnerLoop:
    """Drives one runner until stopped."""

    def __init__(self, spark: SparkSession, runner: Runner) -> None:
        self._spark, self.runner = spark, runner
        self._stopping = threading.Event()
        self._checkpoint = checkpoint(runner.region, runner.shape.key)
        self._query: StreamingQuery | None = None
        #: the error that ended the runner, if one did
        self.failure: BaseException | None = None

    @property
    def name(self) -> str:
        return f"{self.runner.region}/{self.runner.shape.key}"

    def start(self) -> None:
        self.runner.store.disk.delete_folder(self._checkpoint)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.runner.region)
        ticks = self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        self._query = (
            ticks.writeStream.queryName(self.name)
            .foreachBatch(self._tick)
            .option("checkpointLocation", self.runner.store.path(self._checkpoint))
            .option("asyncProgressTrackingEnabled", "true")
            .option("asyncProgressTrackingCheckpointIntervalMs", "60000")
            .option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
            .start()
        )

    def stop(self) -> None:
        self._stopping.set()
        if self._query is not None:
            self._query.stop()

    def _tick(self, _: DataFrame, __: int) -> None:
        until = time.monotonic() + TICK_LASTS
        while not self._stopping.is_set() and time.monotonic() < until:
            if self.runner.waiting():
                self._step()
            else:
                self._stopping.wait(LOOK_EVERY)

    def _step(self) -> None:
        try:
            self.runner.step()
        except BaseException as error:
            if not self._stopping.is_set():
                self.failure = error
                log.exception("%s stopped: the micro-batch failed and was rolled back", self.name)
            raise
