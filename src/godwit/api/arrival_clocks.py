"""Windows by the time of arrival close though nothing more arrives: time itself advances the streams they read."""

from __future__ import annotations

import time

from godwit.api.core import FleetCore
from godwit.ids import StreamId
from godwit.protocol.span import span


class ArrivalClocks:
    """Appends an entry without rows to each such stream, as long as one of its windows may be open."""

    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet
        #: stream -> what was the last entry of each of its logs after the last beat, and until when to go on
        self._last: dict[StreamId, dict[str, int]] = {}
        self._until: dict[StreamId, float] = {}

    def beat(self) -> None:
        fleet = self._fleet
        queries = [q for q in fleet.deployment.queries.values() if any(s.arrival for _, s in q.shape.plan.scans)]
        streams = {scan.stream for query in queries for _, scan in query.shape.plan.scans}
        if not streams:
            return
        now = time.time()
        with fleet.lock:
            regions = set(fleet.deployment.sites.values())
            for stream in streams:
                if fleet.gateway.starts(regions, [stream]) != self._last.get(stream):
                    self._until[stream] = now + span(queries) / 1e6 + 1.0
                elif now > self._until.get(stream, 0.0):
                    continue
                fleet.gateway.tell_arrival(stream, fleet.deployment)
                self._last[stream] = fleet.gateway.starts(regions, [stream])
