"""Keeps the records of changes of plan (`replan/change_record.py`), as commits and steps come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from godwit.ids import QueryId
from godwit.replan.change_record import KEPT, PLAN_CHANGES, PlanChangeRecord, PlanPhase
from godwit.storage.log import Record
from godwit.storage.store import Store


class PlanRecords:
    """Any thread may report; a result is timed when its commit is there."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store, self._now, self._lock = store, now, threading.Lock()
        self._active: dict[str, PlanChangeRecord] = {}
        #: shape -> when results came last, and the longest gap before
        self._results: dict[str, tuple[float, float]] = {}
        for stored in store.get_document(PLAN_CHANGES) or ():
            if stored["ended"] is None and not stored["reverted"]:
                self._active[stored["query"]] = PlanChangeRecord.from_json(stored)
        self._last: dict[str, float] = {}

    def begin(
        self,
        query: QueryId,
        order: str,
        strategy: str,
        shape: str,
        forecast: Mapping[str, float] | None = None,
        asked_at: float | None = None,
    ) -> None:
        """`asked_at`: if that was before."""
        with self._lock:
            now = self._now()
            at, gap = self._results.get(shape, (now, 0.0))
            self._last[query] = at
            self._active[query] = PlanChangeRecord(
                query, order, strategy, asked_at or now, calm_s=gap, forecast=forecast
            )

    def phase(self, query: QueryId, phase: str, version: QueryId, rows: int = 0, size: int = 0) -> None:
        with self._lock:
            if query in self._active:
                self._active[query] = self._active[query].with_phase(PlanPhase(phase, self._now(), version, rows, size))
                self._keep(self._active[query])

    def end(self, query: QueryId, reverted: str = "") -> None:
        with self._lock:
            if query in self._active:
                self._keep(replace(self._active.pop(query), ended=self._now(), reverted=reverted))

    def committed(self, shape: str, query: QueryId | None, metrics: Record) -> None:
        """`query`: whose versions the shape runs, if its plan is being changed."""
        with self._lock:
            now = self._now()
            if metrics["rows_out"]:
                at, gap = self._results.get(shape, (now, 0.0))
                self._results[shape] = now, max(0.98 * gap, now - at)
            if query in self._active:
                assert query is not None
                one = self._active[query]
                silence = max(one.silence_s, now - self._last.get(query, now)) if metrics["rows_out"] else one.silence_s
                self._active[query] = replace(one, silence_s=silence, rows=one.rows + metrics["rows_in"])
                if metrics["rows_out"]:
                    self._last[query] = now

    def _keep(self, record: PlanChangeRecord) -> None:
        known = [one for one in self._store.get_document(PLAN_CHANGES) or () if one["began"] != record.began]
        self._store.put_document(PLAN_CHANGES, [*known, record.to_json()][-KEPT:])
