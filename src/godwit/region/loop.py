"""A runner's thread: it builds the runner, then steps it whenever there is news in one of its logs.

Whoever appends to a log wakes the loops that read it; a slow look now and then finds what nobody announced (records of
other processes). What was read, under which epoch, with which state and outputs stands in the runner's own commits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from godwit.ids import RegionId
from godwit.region.runner import Runner

log = logging.getLogger(__name__)

#: how often a runner that nobody has woken looks at its logs (seconds); more often while state is on its way to it
LOOK_EVERY, LOOK_FOR_STATE_EVERY = 0.25, 0.01


class RunnerLoop:
    """Drives one runner until stopped."""

    def __init__(
        self,
        spark: SparkSession,
        region: RegionId,
        name: str,
        build: Callable[[], Runner],
        stepped: Callable[[Runner], None],
    ) -> None:
        self._spark, self._region, self.name, self._build, self._stepped = spark, region, name, build, stepped
        self._stopping, self._news = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        #: the error that ended the runner, if one did
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread = InheritableThread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._news.set()

    def stop(self, wait: bool = True) -> None:
        """End after the micro-batch that is under way."""
        self._stopping.set()
        self._news.set()
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            # Regions share the task slots fairly, whoever has more to do.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._region)
            runner = self._build()
            self._stepped(runner)
            while not self._stopping.is_set():
                self._turn(runner)
        except BaseException as error:
            if not self._stopping.is_set():
                self.failure = error
                log.exception("%s stopped: the micro-batch failed and was rolled back", self.name)

    def _turn(self, runner: Runner) -> None:
        self._news.clear()
        if runner.waiting():
            runner.step()
            self._stepped(runner)
        else:
            self._news.wait(LOOK_FOR_STATE_EVERY if runner.memory.underway else LOOK_EVERY)
