"""The agent of a region: its source logs, runners, commits and outbox, over the store alone; woken by notifications.

It follows the control log. An epoch is followed (streams declared, runners noted, sessions of devices ended) before any
runner hears of it (`EpochReader.first_seen`), so that runners, gateway and acknowledgements never disagree. While the
coordinator is away nothing is published, and the region goes on under the last epoch.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from godwit.engine.analysis import Analyst
from godwit.errors import StateError
from godwit.ids import DeviceId, Epoch, RegionId, StreamId
from godwit.ingest.arrival_clocks import ArrivalClocks
from godwit.ingest.batches import Batches, MeanwhileError
from godwit.ingest.derived import Publisher
from godwit.ingest.gateway import Gateway
from godwit.ingest.rows import Rows
from godwit.ingest.schema import Conformed
from godwit.maintenance.housekeeping import Housekeeper, Retention, Swept
from godwit.model.codec import decode
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import Stream
from godwit.model.taps import PRODUCER
from godwit.process.fleet_document import fleet_options
from godwit.process.members import Membership, ProcessMember, region_document
from godwit.process.notify import Notifier
from godwit.process.reports import Reports
from godwit.process.sequences import SequenceIndex
from godwit.protocol.inputs import parts_plans
from godwit.region.epochs import EpochReader
from godwit.region.legacy import reported
from godwit.region.loop import passes
from godwit.region.plan_lines import draw_line
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits, Runner
from godwit.region.transfer import StateTransfer
from godwit.storage import names
from godwit.storage.base import Durability
from godwit.storage.log import Record
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: how often the control log is looked at, should nobody have told us (seconds)
LOOK_EVERY = 0.25
#: how often time is told to streams that queries read by arrival (seconds), and how often when nothing arrives here
BEAT_EVERY, SILENT_EVERY = 0.4, 2.0
#: how often runners that a full disk, or a store that was away, has ended are tried again (seconds)
REVIVE_EVERY = 1.0


@dataclass(frozen=True)
class RegionOptions:
    """How a region's process works."""

    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    durability: Durability = "process"


class RegionAgent:
    """One region of a fleet, in this process."""

    def __init__(
        self,
        store: Store,
        region: RegionId,
        spark: SparkSession,
        token: str,
        options: RegionOptions,
        member: Membership,
    ) -> None:
        """`member`: has joined under the region's name."""
        self.region, self.options, self.store, self.membership = region, options, store, member
        self._spark = spark
        told = fleet_options(store)
        self.lock = threading.RLock()
        self.analyst, self.gateway = Analyst(spark), Gateway(store, only=region)
        self.notifier = Notifier(store, token, region)
        self.reports = Reports(store, region, self.notifier.report)
        self._epochs = EpochReader(store, self._follow)
        self.deployment, self._followed = Deployment(), 0
        self._position = f"{region_document(region)}/followed"
        transfer = StateTransfer(store, told.state, landing=f"landing/{region}")
        publisher = Publisher(self.gateway, self.lock, lambda: self.deployment)
        self.pool = RunnerPool(
            spark,
            store,
            options.limits,
            lambda moment: None,
            [publisher.publish, self._committed],
            transfer,
            lambda _, epoch: self._acknowledge(epoch),
            here=lambda one: one == region,
            elsewhere=self.notifier.messages,
            epochs=self._epochs,
        )
        self.gateway.appended = self.pool.wake
        self.arrivals = ArrivalClocks(self, BEAT_EVERY, SILENT_EVERY)
        if store.served is not None:
            store.served.on_append = self._on_append
        self._sequences = SequenceIndex(store, region)
        self._housekeeper = Housekeeper(
            store, options.retention, known=self._knows, mine=lambda one: one == region, epochs=lambda: -1
        )
        self._revive_at = 0.0
        self._saved, self._stopping, self._news = 0, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{region}/follow", daemon=True)
        self._keeper = threading.Thread(target=self._keep, name=f"{region}/keep", daemon=True)

    # --- running

    def start(self, address: str) -> None:
        """Join: stand where an earlier process of this name stood, follow what was published since, and run."""
        self._recall()
        self.membership.describe = lambda: self._described(address)
        self.notifier.start()
        self.pool.start()
        self.look()
        self.membership.start()
        self._thread.start()
        self._keeper.start()

    def stop(self) -> None:
        """After the micro-batches that are under way."""
        self._stopping.set()
        self._news.set()
        for thread in (self._thread, self._keeper):
            if thread.is_alive():
                thread.join()
        self.pool.stop()
        with contextlib.suppress(OSError):  # (a store that is away: an epoch that is followed twice changes nothing)
            self._save()
        self.notifier.stop()
        self.membership.leave()

    def failures(self, *, passing: bool = False) -> dict[str, str]:
        """What has failed for good; `passing`: what is tried again, every second."""
        found = self.pool.failures().items()
        return {name: f"{type(why).__name__}: {why}" for name, why in found if passes(why) == passing}

    def _described(self, address: str) -> ProcessMember:
        tried = {name: f"{why} (tried again)" for name, why in self.failures(passing=True).items()}
        return ProcessMember(address, self._followed, failures=self.failures() | tried)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(LOOK_EVERY)
            self._news.clear()
            try:
                self.look()
                self._save()
                self.arrivals.beat()
                if any(query.inherits in self.deployment.queries for query in self.deployment.queries.values()):
                    self.pool.wake()  # other processes leave state to versions here, and do not say so
                if time.monotonic() >= self._revive_at:
                    self.pool.revive()
                    self._revive_at = time.monotonic() + REVIVE_EVERY
            except (OSError, StateError):
                log.exception("%s: the store cannot be read; tried again", self.region)
                self._stopping.wait(1.0)

    def _keep(self) -> None:
        """Housekeeping, beside: it looks at logs of all regions, which may be far away, or cut off."""
        while not self._stopping.wait(LOOK_EVERY):
            try:
                self._keep_house()
            except (OSError, StateError) as fault:
                log.warning("%s: housekeeping is tried again: %s", self.region, fault)
                self._stopping.wait(5.0)

    def wake(self) -> None:
        """There may be an epoch."""
        self._news.set()

    def _on_append(self, log_name: str) -> None:
        """The store's server has news of a log."""
        if log_name == names.CONTROL:
            self.wake()
        elif (sent := names.sent_in(log_name)) is not None and sent[2] == self.region:
            self.pool.announced(self.region, [sent[1]], sent[0])

    # --- epochs

    def look(self) -> int:
        """Follow all that is published; the newest epoch."""
        control = self._epochs.control
        if control.exists(self._followed + 1):
            with self.lock:
                for number, _ in self._epochs.after(self._followed, self.deployment):
                    assert number <= self._followed
        return self._followed

    def _recall(self) -> None:
        """Stand at the epoch that was followed last; what comes after it is followed again."""
        control, saved = self._epochs.control, self.store.get_document(self._position)
        number, deployment = control.oldest()
        if saved is not None and saved["epoch"] > number:
            number = min(saved["epoch"], control.last)
            deployment = control.deployment_at(number)
        self._followed, self.deployment = number, deployment
        for stream in deployment.streams.values():
            self._declare(stream)
        rows = Delta(queries=deployment.queries, feeds=deployment.feeds, devices=deployment.devices)
        self.pool.expect(Deployment(), rows, deployment)
        with self.lock:
            self.gateway.sessions.follow(deployment.devices, deployment)
            self.gateway.sessions.repeat_ends(deployment.streams, deployment)
        self._save()  # from now on nobody removes the epochs after it

    def _follow(self, number: int, after: Deployment, record: Record) -> None:
        """An epoch that nobody here has heard of yet."""
        with self.lock:
            if number <= self._followed:
                return
            before, delta = self.deployment, decode(record["delta"])
            for name, stream in after.streams.items():
                if name not in before.streams:
                    self._declare(stream, after)
                elif before.streams[name] != stream:
                    self.gateway.widen(self.analyst.declare(stream))
            self._draw_line(number, after)
            for device in delta.devices.keys() & after.stays.keys():
                self._sequences.attached(device, after.stays[device], after.sessions.get(device, 1))
            for device in delta.forgotten:
                self._sequences.forget(device)
            self.gateway.adopt(delta, before, after)
            # Followed only now: if the ends of sessions could not be written, the epoch is followed once more.
            self.pool.expect(before, delta, after)
            self.deployment, self._followed = after, number
        if self.pool.running:
            self.pool.hire()
            self.pool.wake()
        if not self.pool.runs(self.region):
            self._acknowledge(Epoch(number))

    def _draw_line(self, number: int, after: Deployment) -> None:
        """Where versions of queries part in the source logs here: before any runner has heard of it, and for ever."""
        parting = [query for query in after.queries.values() if parts_plans(query, number)]
        streams = {scan.stream for query in parting for _, scan in query.shape.plan.scans}
        if streams:
            ends = {stream: self.store.log(names.source_log(self.region, stream)).last for stream in sorted(streams)}
            draw_line(self.store, self.region, number, ends, self._epochs.control.first)

    def _declare(self, stream: Stream, deployment: Deployment | None = None) -> None:
        self.gateway.declare(self.analyst.declare(stream), deployment or self.deployment)

    def _acknowledge(self, epoch: Epoch) -> None:
        self.reports.acknowledge(epoch)

    def _committed(self, runner: Runner, number: int, record: Record) -> None:
        self.reports.committed(record)
        report = reported(runner.shape.key, runner.kernel, record)
        if report is not None:
            self.reports.changing(report)

    def _save(self) -> None:
        """How far was followed, now and then: an epoch that is followed twice changes nothing."""
        if self._followed != self._saved:
            self.store.put_document(self._position, {"epoch": self._followed})
            self._saved = self._followed

    # --- rows

    def conform(self, stream: StreamId, rows: Rows, device: DeviceId | None) -> Conformed:
        """Rows as the newest epoch declares their stream: it may be new, or have a column more."""
        self.look()
        return self.gateway.conform(stream, rows, device)

    def push_many(self, stream: StreamId, batches: Batches, device: DeviceId) -> tuple[int, list[dict[str, Any]]]:
        """Numbered batches of a device that is attached here: one entry for those that are new. How many these are, and
        rows of theirs that did not fit."""
        self.look()
        self.gateway.schema(stream)
        while (fresh := batches.after(known := self.gateway.sequence(stream, device))).parts:
            with contextlib.suppress(MeanwhileError):  # (also if it is only now known what another region has taken)
                fits = self.conform(stream, fresh.table, device)
                self.push(stream, fits, device, fresh.last, known)
                return len(fresh.parts), fits.dead
        return 0, []

    def push(
        self,
        stream: StreamId,
        rows: Conformed,
        device: DeviceId | None,
        sequence: int | None,
        after: int | None = None,
    ) -> bool:
        """Rows of devices that are attached here, under the epoch that they were conformed by or a newer one;
        ElsewhereError says where they are. `after`: see `Gateway.push`."""
        if device is None or sequence is None:
            with self.lock:
                return self.gateway.push(stream, rows, self.deployment, device, sequence)
        while True:
            # Another region may have taken them, and its answer been lost. Not under the lock: it may be far away.
            session = self.deployment.sessions.get(device, 1)
            newest = self._sequences.of(stream, device, session)
            with self.lock:
                if newest is not None:
                    self.gateway.remember(stream, device, max(self.gateway.sequence(stream, device), newest))
                    self._sequences.known(stream, device, session)
                if session == self.deployment.sessions.get(device, 1):
                    return self.gateway.push(stream, rows, self.deployment, device, sequence, after)

    def tell_time(self, stream: StreamId, clocks: dict[DeviceId, int]) -> None:
        self.look()
        with self.lock:
            self.gateway.check_clocks(stream, clocks)
            self.gateway.tell(stream, clocks, self.deployment)

    def end(self) -> int:
        """A time behind every window that rows of this region can be in."""
        with self.lock:
            return self.gateway.sessions.end(self.deployment)

    def close(self, devices: Sequence[DeviceId] | None, end: int) -> None:
        """Nothing more comes from these devices (None: from any), as far as they are here."""
        self.look()
        with self.lock:
            for device in self.deployment.devices if devices is None else devices:
                if not device.startswith(PRODUCER):
                    self.gateway.close(device, self.deployment, end)

    def status(self) -> dict[str, Any]:
        try:
            self.store.refresh()
            idle = not self._epochs.control.exists(self._followed + 1) and self.pool.idle() and not self.pool.underway
        except OSError:  # another region's messages, or epochs, cannot be reached: there may be some
            idle = False
        tried = self.failures(passing=True)
        return {
            "region": self.region,
            "epoch": self._followed,
            "adopted": self.pool.adopted,
            "idle": idle and not tried,
            "committed": self.pool.committed(),
            "runners": len(self.pool.runners),
            "executors": self._executors(),
            "failures": self.failures(),
            "tried_again": tried,
        }

    def _executors(self) -> int:
        """Of a cluster; 0: Spark works in this process."""
        return int(self._spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1

    # --- housekeeping

    def _knows(self, device: DeviceId) -> bool:
        return self.deployment.knows(device)

    def _keep_house(self) -> None:
        if self._housekeeper.behind(self.pool.committed()) < 1.0:
            return
        with self.lock:
            epoch, now = self._followed, self.deployment
            gone = now.stays.keys() - now.devices.keys()
            departed = {
                device: {log: at for log, at in self.gateway.sessions.left_at(device).items() if log[0] == self.region}
                for device in gone
            }
        running = {r.shape.key: r.shape for r in list(self.pool.runners.values())} | now.shapes()
        swept, until = Swept(), time.monotonic() + 0.03
        queries, committed = set(now.queries), self.pool.committed()
        for _ in self._housekeeper.bits(running.values(), queries, committed, swept, departed):
            if time.monotonic() > until:
                self._stopping.wait(0.2)
                until = time.monotonic() + 0.03
        self.reports.read_to_the_end(swept.devices, epoch)
