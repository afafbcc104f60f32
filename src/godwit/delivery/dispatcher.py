"""The dispatcher: hands the results of a commit to the sinks of its queries as it is committed, without reading a log.

The thread that commits only puts them into queues. Sinks are called by workers, so that a slow one, or one that fails,
holds up neither the region nor the other sinks; a sink that failed is tried again after a pause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

from godwit.delivery.delivery import SAVE_EVERY, Announced, Delivery, Subject
from godwit.delivery.sinks.base import ResultSink
from godwit.delivery.workers import Workers
from godwit.ids import QueryId, RegionId
from godwit.observe.rollup import results_of
from godwit.storage.by_query import rows_by_query
from godwit.storage.log import Record, Segment
from godwit.storage.store import Store

#: with many sinks, positions are written less often: pause per sink (seconds)
SAVE_EACH = 0.02


class Dispatcher:
    """All deliveries of a fleet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: replaced as a whole, so that readers need no lock
        self.deliveries: dict[tuple[QueryId, str], Delivery] = {}
        #: shape -> query, as rows are marked -> its deliveries
        self._readers: dict[str, dict[str, list[Delivery]]] = {}
        self._announced: dict[tuple[RegionId, str], Announced] = {}
        self._changing = threading.Lock()
        self._workers = Workers("godwit-sinks")
        #: those that are to be tried again
        self._failed: set[Delivery] = set()
        self._saving = False

    def add(self, subject: Subject, sink: ResultSink) -> Delivery:
        """A sink of a query; one of the same name takes the place of an earlier one."""
        with self._changing:
            before = self.deliveries.get((subject.name, sink.name))
            if before is not None:
                before.end()
            delivery = Delivery(self._store, subject, sink, self._told)
            self.deliveries = {**self.deliveries, (subject.name, sink.name): delivery}
            of_shape = self._readers.get(subject.shape, {})
            others = [one for one in of_shape.get(subject.query, ()) if one is not before]
            self._readers = {**self._readers, subject.shape: {**of_shape, subject.query: [*others, delivery]}}
        if self._workers.running:
            self._workers.put(partial(self._serve, delivery, Delivery.pump))
        return delivery

    def succeed(self, old: QueryId, subject: Subject) -> None:
        """Sinks of a version that has ended follow the next one, once they have all of the old one's results."""
        for delivery in [one for one in self.deliveries.values() if one.subject.query == old]:
            delivery.flush()
            self.add(subject, delivery.sink)

    def committed(self, region: RegionId, shape: str, number: int, record: Record) -> None:
        """Called by the committing thread, in the order of numbers; once more for the last one after a restart."""
        readers, known = self._readers.get(shape), self._told(region, shape)
        if not readers or number <= known.begun:
            return
        # (before anything is offered: a reader at the end of the log must not take itself to be in step)
        self._announced[region, shape] = Announced(number, known.done)
        if number != known.begun + 1:
            asked = [delivery for delivery in self._of(readers, None) if delivery.lose_step(region)]
        else:
            results, after = results_of(record, self._store), record.get("after", {})
            asked = [d for d in self._of(readers, results) if d.offer(region, number, results, after)]
        self._announced[region, shape] = Announced(number, number)
        if self._workers.running:
            for delivery in asked:
                self._workers.put(partial(self._serve, delivery, Delivery.work))
            self._save_later()

    def _told(self, region: RegionId, shape: str) -> Announced:
        return self._announced.get((region, shape), Announced())

    @staticmethod
    def _of(readers: dict[str, list[Delivery]], results: Iterable[Segment] | None) -> list[Delivery]:
        """The deliveries of queries that have rows in the results (None: all)."""
        told = [rows_by_query(segment) for segment in results or ()]
        if results is None or None in told:
            return [delivery for those in readers.values() for delivery in those]
        queries = {query for rows in told if rows is not None for query in rows}
        return [delivery for query in queries for delivery in readers.get(query, ())]

    def _serve(self, delivery: Delivery, how: Callable[[Delivery], None]) -> None:
        """Let a worker deliver; if the sink fails, again after a pause."""
        how(delivery)
        self._try_again(delivery)

    def _try_again(self, delivery: Delivery) -> None:
        with self._changing:
            if delivery.failure is None or delivery in self._failed or not self._workers.running:
                return
            self._failed.add(delivery)
        self._workers.put_later(delivery.pause, partial(self._again, delivery))

    def _again(self, delivery: Delivery) -> None:
        self._failed.discard(delivery)
        if delivery in self.deliveries.values():
            self._serve(delivery, Delivery.pump)

    # --- positions

    def _save_later(self) -> None:
        if not self._saving:
            self._saving = True
            self._workers.put_later(max(SAVE_EVERY, SAVE_EACH * len(self.deliveries)), self._save)

    def _save(self) -> None:
        self._saving = False
        done = [delivery.keep(wait=False) for delivery in self.deliveries.values()]
        if not all(done):
            self._save_later()

    # --- running

    def start(self) -> None:
        self._workers.start()
        for delivery in self.deliveries.values():
            self._workers.put(partial(self._serve, delivery, Delivery.pump))

    def stop(self) -> None:
        """What was not delivered stays for the next time; positions are kept."""
        self._workers.stop()
        self._saving = False
        self._failed.clear()
        for delivery in self.deliveries.values():
            delivery.keep(wait=False)  # (a sink that stops the fleet is still at work)
            delivery.close()

    def flush(self) -> None:
        """Deliver everything that is committed, here and now."""
        for delivery in self.deliveries.values():
            delivery.flush()
            self._try_again(delivery)

    def failures(self) -> dict[str, BaseException]:
        return {
            f"sink {name} of query {query}": delivery.failure
            for (query, name), delivery in self.deliveries.items()
            if delivery.failure is not None
        }
