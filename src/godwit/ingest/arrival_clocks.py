"""Windows by the time of arrival close though nothing more arrives: time itself advances the streams they read."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from godwit.ids import StreamId
from godwit.ingest.gateway import Gateway
from godwit.model.deployment import Deployment
from godwit.protocol.span import span


class SourceLogOwner(Protocol):
    """The writer of source logs: a fleet, or the process of a region."""

    gateway: Gateway

    @property
    def lock(self) -> threading.RLock: ...

    @property
    def deployment(self) -> Deployment: ...


class ArrivalClocks:
    """Appends an entry without rows to each such stream, as long as one of its windows may be open."""

    def __init__(self, fleet: SourceLogOwner, every: float = 0.0, silent_every: float | None = None) -> None:
        """`every`: not more often than so (seconds). `silent_every`: after a silence, too, and so often, where other
        processes have logs of the stream whose rows are not seen here; None: there are no others."""
        self._fleet, self._every, self._silent_every = fleet, every, silent_every
        #: stream -> what was the last entry of each of its logs after the last beat, until when to go on, the next beat
        self._last: dict[StreamId, dict[str, int]] = {}
        self._until: dict[StreamId, float] = {}
        self._next: dict[StreamId, float] = {}

    def beat(self) -> None:
        fleet = self._fleet
        queries = [q for q in fleet.deployment.queries.values() if any(s.arrival for _, s in q.shape.plan.scans)]
        streams = {scan.stream for query in queries for _, scan in query.shape.plan.scans}
        regions = fleet.gateway.writes(fleet.deployment.sites.values()) if streams else set()
        if not regions:  # (a coordinator writes none)
            return
        now = time.time()
        with fleet.lock:
            for stream in streams:
                if fleet.gateway.starts(regions, [stream]) != self._last.get(stream):
                    self._until[stream] = now + span(queries) / 1e6 + 1.0
                if self._is_due(stream, now):
                    fleet.gateway.tell_arrival(stream, fleet.deployment)
                    self._last[stream] = fleet.gateway.starts(regions, [stream])

    def _is_due(self, stream: StreamId, now: float) -> bool:
        silent = now > self._until.get(stream, 0.0)
        every = self._silent_every if silent else self._every
        if every is None or now < self._next.get(stream, 0.0):
            return False
        self._next[stream] = now + every
        return True
