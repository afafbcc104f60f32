"""The executor: carries out what the coordinator instructs. It writes the control log and holds what is published.

There is one epoch number, that of the record; one copy of the published deployment, this one; and what regions hand
over stands in the record. Decisions are the coordinator's alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from godwit.control.control_plane import ControlPlane
from godwit.control.epoch_record import epoch_record
from godwit.control.events import Event, Instruction, Park, Publish, Record, RegionAcked, Request, Resume, Revert
from godwit.ids import QueryId
from godwit.ingest.gateway import Gateway
from godwit.model.deployment import Delta, Deployment
from godwit.observe.tracker import ReconfigurationTracker
from godwit.region.pool import Key, RunnerPool
from godwit.storage.epoch_log import Control

said = logging.getLogger("godwit.control")


class Executor:
    """Not thread-safe: one thread at a time drives it (`ControlLoop`). Its deployment may be read by any."""

    def __init__(
        self,
        plane: ControlPlane,
        log: Control,
        gateway: Gateway,
        pool: RunnerPool,
        tracker: ReconfigurationTracker,
        lock: threading.RLock,
        post: Callable[[Event], None],
    ) -> None:
        self.plane, self.log = plane, log
        self._gateway, self._pool, self._tracker, self._lock, self._post = gateway, pool, tracker, lock, post
        self.deployment: Deployment = log.deployment_at(log.last)
        self.parked: dict[QueryId, str] = dict(self.deployment.parked)
        #: the last command that was taken in
        self.command = 0
        #: notifies other processes of a new epoch
        self.announce: Callable[[], None] = lambda: None
        #: when the newest epoch was published (monotonic seconds)
        self.published_at = 0.0
        #: whether regions are still to be notified of it
        self._untold = False

    def handle(self, event: Event, *more: Request, notify: bool = True) -> None:
        """An event; or several requests, which one epoch is to bring. Not `notify`: the caller does it soon."""
        began = time.perf_counter()
        instructions = self.plane.coordinator.together((event, *more)) if more else self.plane.handle(event)  # type: ignore[arg-type]
        self.carry_out(instructions, time.perf_counter() - began, notify=notify)

    def carry_out(self, instructions: Iterable[Instruction], planned: float = 0.0, notify: bool = True) -> None:
        for instruction in instructions:
            match instruction:
                case Publish() | Revert():
                    self._publish(instruction, planned)
                    planned = 0.0
                case Park(query, reason):
                    if self.parked.get(query) != reason:
                        said.warning("query '%s' is suspended: %s", query, reason)
                    self.parked[query] = reason
                case Resume(query):
                    self.parked.pop(query, None)
                case Record(record):
                    self._tracker.ended(record)
                case _:
                    pass  # a commit needs no deed: regions work under the epoch already
        if notify:
            self.notify()

    def notify(self) -> None:
        """Notify the regions of what was published. All begin at once: a caller that waits for an answer goes first."""
        if self._untold:
            self._untold = False
            self._pool.wake()
            self.announce()

    def _publish(self, instruction: Publish | Revert, planned: float) -> None:
        began = time.perf_counter()
        before, after = self.deployment, self.deployment.apply(instruction.delta)
        needed = self._pool.expect(before, instruction.delta, after)
        with self._lock:  # rows that are pushed from now on go where the new epoch says
            starts = self._starts(instruction.delta, after, needed)
            waiting = self.plane.coordinator.monitor.waiting
            self.log.publish(instruction.epoch, epoch_record(instruction, waiting, starts, self.command))
            self.deployment = after
            fault = self._gateway.adopt_published(instruction.delta, before, after)
        if fault is not None:
            said.warning("ends of sessions cannot be written, and are tried again: %s", fault)
        self.published_at = time.monotonic()
        self._pool.hire()
        self._untold = True
        self._tracker.published(instruction, self.plane.coordinator.record, planned, time.perf_counter() - began)
        for region in self.plane.planner.regions:
            if not self._pool.runs(region):
                self._post(RegionAcked(region, instruction.epoch))

    def retry(self) -> None:
        """Write what a full disk did not take; windows, and rows of the next session, wait for it."""
        with self._lock, suppress(OSError):
            self._gateway.catch_up()

    def _starts(self, delta: Delta, after: Deployment, needed: Iterable[Key]) -> dict[str, int]:
        """Where the logs stand that a new query, or a new runner, reads."""
        found: dict[str, int] = {}
        for key in needed:
            found |= self._gateway.starts([key[0]], self._pool.scans(key))
        new = [query for query in delta.queries.values() if query is not None]
        streams = {scan.stream for query in new for _, scan in query.shape.plan.scans}
        return found | self._gateway.starts(set(after.sites.values()), streams) if streams else found
