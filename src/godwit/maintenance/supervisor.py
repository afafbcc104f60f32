"""The supervisor: beside the runners, it keeps house, re-optimises and re-admits.

One thread while the fleet runs. Each duty fails alone: the others go on, `fleet.status()` says which one failed and
why, and it is tried again after a pause (`duties.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping

from godwit.api.core import FleetCore
from godwit.api.oracle import scans
from godwit.delivery.delivery import Delivery, Subject
from godwit.delivery.sinks.base import ResultSink
from godwit.errors import ConfigError, StateError
from godwit.ids import QueryId
from godwit.maintenance.duties import Duty
from godwit.maintenance.housekeeping import Housekeeper, Retention, Swept
from godwit.storage.names import kept_log, source_log

#: how often the supervisor looks around (seconds)
EVERY = 0.25
#: for how long it then keeps house at once (seconds): micro-batches and sinks wait no longer for it
SLICE = 0.03
#: a pass has come to its end
OVER = object()


class Supervisor:
    """Holds the housekeeper."""

    def __init__(self, fleet: FleetCore, retention: Retention, looks: Mapping[str, Callable[[], None]]) -> None:
        self._fleet = fleet
        self.housekeeper = Housekeeper(fleet.store, retention, known=lambda device: fleet.deployment.knows(device))
        self._copies = Duty("copies of the control log", lambda: fleet.keep_copies())
        self._housekeeping = Duty("housekeeping", self._keep_house, self._break_off)
        self._looks = tuple(Duty(name, look) for name, look in looks.items())
        self._round = threading.Lock()
        self._pass: Iterator[None] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def deliver(self, query_id: QueryId, sink: ResultSink) -> Delivery:
        """Let a sink follow a query's results; one of the same name takes the place of an earlier one."""
        query = self._fleet.execution(query_id)
        leaves = query.shape.plan.sink
        if leaves.key is not None and sink.changes == "none":
            msg = (
                f"the results of '{query_id}' replace each other, and {type(sink).__name__} takes none that do; "
                "aggregate in a window, or use a sink that declares changes = 'newest' or 'every'"
            )
            raise ConfigError(msg)
        subject = Subject(query_id, query.id, query.shape.key, leaves.written, leaves.key)
        return self._fleet.dispatcher.add(subject, sink)

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="godwit-supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def flush(self) -> None:
        """Deliver everything that is committed, and keep house if it is time."""
        self._fleet.dispatcher.flush()
        self._look()

    def _look(self) -> None:
        with self._round:
            self._copies.run()
            self._housekeeping.run()

    def sweep(self) -> Swept:
        """Keep house now, from the beginning to the end."""
        with self._round:
            for _ in self._pass or ():
                pass
            swept = Swept()
            for _ in self._sweep(swept):
                pass
            return swept

    def _keep_house(self) -> None:
        """A slice of a pass, if one is due or under way; the more there is to do, the longer."""
        behind = self.housekeeper.behind(self._fleet.pool.committed())
        if self._pass is None and behind >= 1.0:
            self._pass = self._sweep(Swept())
        until = time.monotonic() + SLICE * max(behind, 1.0)
        while self._pass is not None:
            if next(self._pass, OVER) is OVER:
                self._pass = None
            elif time.monotonic() >= until:
                return

    def _break_off(self) -> None:
        """A pass that failed begins again: what it did stays done."""
        self._pass = None

    def _sweep(self, swept: Swept) -> Iterator[None]:
        pool, deliveries = self._fleet.pool, self._fleet.dispatcher.deliveries
        if not self.housekeeper.retention.keep:
            pool.dismiss(lambda: self._fleet.deployment, {d.subject.shape for d in deliveries.values()})
        running = {r.shape.key: r.shape for r in list(pool.runners.values())} | self._fleet.deployment.shapes()
        delivering = {query for query, _ in deliveries}
        known = {*self._fleet.deployment.queries, *delivering}
        departed = self._fleet.departed()
        for _ in self.housekeeper.bits(running.values(), known, pool.committed(), swept, departed):
            pool.forget_results(swept.folded)
            swept.folded.clear()
            yield
        pool.forget_results(swept.folded)
        pool.remove(swept.shapes)
        self._fleet.forget_devices(swept.devices)

    def must_be_whole(self, query_id: QueryId) -> None:
        """Raise if rows or results of the query are gone, so that nothing can be said of the whole."""
        fleet = self._fleet
        query = fleet.execution(query_id)
        logs = [
            (fleet.store.log(source_log(runner.region, scanned.stream)), scanned.begun(runner))
            for scanned in scans(fleet, query)
            for runner in fleet.runners_of(scanned.query.shape.key)
        ]
        runners = fleet.runners_of(query.shape.key)
        logs += [(fleet.store.log(kept_log(runner.region, query.shape.key)), 0) for runner in runners]
        for log_, needed_after in logs:
            if log_.first - 1 > needed_after:
                msg = (
                    f"query '{query_id}' cannot be compared: {fleet.store.where(log_.name)} no longer keeps "
                    "what it began with; open the fleet with retention=Retention(keep=True)"
                )
                raise StateError(msg)

    def failures(self) -> dict[str, BaseException]:
        found: dict[str, BaseException] = {**self._fleet.dispatcher.failures()}
        duties = (self._copies, self._housekeeping, *self._looks)
        for duty in duties:
            if duty.attempts.failure is not None:
                found[duty.name] = duty.attempts.failure
        return found

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            self._look()
            for duty in self._looks:
                duty.run()
