"""Deliveries: a sink follows the committed results of one query, region by region, with its position on disk.

The position is one atomic file; housekeeping keeps what it has not passed. It is written after the sink has taken a
commit's results, so a crash in between repeats that commit: the sink says whether that shows.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from godwit.delivery.archive import entries
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.ids import QueryId, RegionId
from godwit.maintenance.duties import Attempts
from godwit.storage import names
from godwit.storage.by_query import may_hold
from godwit.storage.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """The query whose results are delivered."""

    #: as the user calls it
    name: QueryId
    #: as its rows are marked: itself, or its identical twin
    query: QueryId
    shape: str
    columns: tuple[str, ...]


def positions(store: Store) -> Iterator[dict[str, Any]]:
    """How far each sink has come, as `Delivery` keeps it."""
    for name in names.sink_positions(store.disk):
        saved = store.get_document(name)
        if saved is not None:
            yield saved


class Delivery:
    """One sink of one query."""

    def __init__(self, store: Store, subject: Subject, sink: ResultSink) -> None:
        self._store, self.subject, self.sink = store, subject, sink
        digest = hashlib.sha256(sink.name.encode()).hexdigest()[:12]
        self._name = names.sink_position(subject.name, digest)
        saved = store.get_document(self._name) or {"positions": {}, "state": {}}
        self.positions: dict[str, int] = saved["positions"]
        self._attempts = Attempts()
        sink.open(saved["state"])
        self._save(saved["state"])

    @property
    def failure(self) -> Exception | None:
        """Why the sink does not take results now; it is tried again, from the last position that was kept."""
        return self._attempts.failure

    def pump(self) -> int:
        """Deliver what is committed and not delivered; returns the number of commits."""
        if not self._attempts.due(time.monotonic()):
            return 0
        done = 0
        try:
            if self.failure is not None:
                self._reopen()
            for region in names.regions_of(self._store.disk, self.subject.shape):
                done += self._pump(region)
        except Exception as error:  # whatever a sink raises must not end the thread that serves the others
            self._attempts.failed(error, time.monotonic())
            log.exception("sink %s of query %s has failed; it is tried again", self.sink.name, self.subject.name)
        else:
            self._attempts.succeeded()
        return done

    def _reopen(self) -> None:
        """What the sink wrote after the last position that was kept never happened."""
        saved = self._store.get_document(self._name) or {"positions": {}, "state": {}}
        self.positions = saved["positions"]
        self.sink.open(saved["state"])

    def detach(self) -> None:
        """Deliver no more, and let go of what was not delivered."""
        self._store.delete_document(self._name)

    def _pump(self, region: RegionId) -> int:
        done = 0
        for entry in entries(self._store, region, self.subject.shape, self.positions.get(region, 0)):
            subject = self.subject
            mine = [segment for segment in entry.results if may_hold(segment, subject.query)]
            if mine:
                self.sink.write(ResultBatch(region, entry.number, subject.query, subject.columns, mine))
            self.positions[region] = entry.number
            done += 1
            if mine:
                self._save(self.sink.state())
        if done:
            self._save(self.sink.state())
        return done

    def _save(self, state: dict[str, Any]) -> None:
        record = {
            "query": self.subject.name,
            "shape": self.subject.shape,
            "sink": self.sink.name,
            "exactly_once": self.sink.exactly_once,
            "positions": self.positions,
            "state": state,
        }
        self._store.put_document(self._name, record)
