"""Threads that Spark knows: what they run is scheduled in the fair pool of their region."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark import InheritableThread, SparkContext

from godwit.ids import RegionId


def region_thread(work: Callable[[], None], name: str, region: RegionId) -> threading.Thread:
    """A daemon whose Spark jobs share the task slots fairly with those of other regions, whoever has more to do."""

    def run() -> None:
        context = SparkContext._active_spark_context
        if context is not None:
            context.setLocalProperty("spark.scheduler.pool", region)
        work()

    return InheritableThread(target=run, name=name, daemon=True)
