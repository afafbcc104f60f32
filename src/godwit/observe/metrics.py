"""What a running fleet shows of itself: its logs, and what Spark's listener says of the streams it reads from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from godwit.model.plan import Query
from godwit.observe.flows import Flows
from godwit.observe.status import Ledger, Status
from godwit.storage.store import Store


class Metrics(StreamingQueryListener):
    """Follows the session's streaming queries: sources ("source stream/name"). What runners do is in their commits."""

    def __init__(self, store: Store, spark: SparkSession) -> None:
        self._spark, self._ledger = spark, Ledger(store)
        self._names: dict[str, str] = {}
        #: streaming query -> the last progress, and how many batches there were
        self.progress: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, str] = {}
        self._listening = False

    def listen(self) -> None:
        if not self._listening:
            self._spark.streams.addListener(self)
            self._listening = True

    @cached_property
    def _jlistener(self) -> Any:
        """What Spark registers when this listener is added."""
        java: Any = self._spark._jvm
        return java.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_ByJson(self))

    def ignore(self) -> None:
        if self._listening:
            self._spark.streams.removeListener(self)
            self._listening = False

    def waits(self, query: Query) -> list[str]:
        """What a query's rows wait for, in words."""
        return self._ledger.waits(query)

    def status(self, failures: Mapping[str, BaseException]) -> Status:
        """The state of the fleet now; a second look reads only what is new in the logs."""
        told = {**self.ended, **{name: f"{type(e).__name__}: {e}" for name, e in failures.items()}}
        return replace(self._ledger.status(), failures=told, spark={k: dict(v) for k, v in list(self.progress.items())})

    def rows_by_source(self) -> dict[str, int]:
        """ "stream/device" -> rows taken in so far."""
        return self._ledger.rows_by_source()

    def flows(self, shape: str) -> Flows:
        """What has flowed through a shape so far."""
        return self._ledger.flows(shape)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        known = self.progress.setdefault(progress.name or str(progress.id), {"batches": 0, "rows": 0})
        known["batches"] += 1
        known["rows"] += progress.numInputRows
        known["last_ms"] = progress.batchDuration
        known["rows_per_second"] = progress.processedRowsPerSecond

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        name = self._names.pop(str(event.runId), str(event.id))
        if event.exception is not None:
            self.ended[name] = event.exception.splitlines()[0]


class _ByJson(JStreamingQueryListener):
    """Hands progress over as one text.

    PySpark walks the Java object instead, map by map, and every map ends in an exception that is looked into with a
    dozen calls: a quarter of all that Java did in a fleet of three regions, with three events a second.
    """

    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        progress = StreamingQueryProgress.fromJson(json.loads(jevent.progress().json()))
        self.pylistener.onQueryProgress(QueryProgressEvent(progress))
