"""The re-optimiser in the running fleet: measures, asks `control/reoptimiser.py`, and carries out what it advises.

Off unless `Fleet(reoptimise=True)` or `reoptimise=Watching(...)`. A move is an incremental redeployment like any other;
whatever was worth a search is in the fleet's history, with its numbers, whether it was applied or declined.
"""

from __future__ import annotations

import time

from godwit.api.core import FleetCore
from godwit.control.reconfigurations import ReconfigurationRecord
from godwit.control.reoptimiser import Advice, Seen, Watch, Watching
from godwit.ids import QueryId


class Reoptimiser:
    """One per fleet; the supervisor lets it look."""

    def __init__(self, fleet: FleetCore, wanted: bool | Watching) -> None:
        self._fleet = fleet
        self._watch = Watch(wanted if isinstance(wanted, Watching) else None) if wanted else None
        self._looked: tuple[float, dict[str, int]] | None = None

    def look_if_due(self) -> None:
        if self._watch is None:
            return
        now = time.time()
        if self._looked is None or now - self._looked[0] >= self._watch.watching.every_s:
            self.look(now)

    def look(self, at: float) -> list[Advice]:
        """Look once. The first look only takes the measure that the next one is compared with."""
        if self._watch is None:
            return []
        rows, before = self._fleet.metrics.rows_by_source(), self._looked
        self._looked = (at, rows)
        if before is None or at <= before[0]:
            return []
        rates = {source: (count - before[1].get(source, 0)) / (at - before[0]) for source, count in rows.items()}
        with self._fleet.control.driving():
            advice = self._watch.look(self._fleet.plane.planner, Seen(at, rates, self._latencies()))
            for one in advice:
                self._act(one)
        return advice

    def _latencies(self) -> dict[QueryId, float]:
        """Half of a query's newest results took longer, in the slowest of its regions."""
        slowest: dict[str, float] = {}
        for runner in self._fleet.metrics.status({}).runners:
            if runner.latency_ms.p50 is not None:
                slowest[runner.shape] = max(slowest.get(runner.shape, 0.0), runner.latency_ms.p50)
        queries = self._fleet.deployment.queries.values()
        return {q.id: slowest[q.shape.key] for q in queries if q.shape.key in slowest}

    def _act(self, advice: Advice) -> None:
        if advice.decision.verdict == "move":
            self._fleet.hint(advice.hints, advice.text)
            return
        last = self._fleet.plane.coordinator.record.number
        self._fleet.history.add(ReconfigurationRecord(last, advice.text, (advice.query,), outcome="declined"))
