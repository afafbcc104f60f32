"""The fleet: what users hold. Declares streams, attaches devices, submits queries, and keeps the regions running.

What users ask for is a command in the command log; what is decided is an epoch in the control log; what devices send is
an entry in a source log. All that is in memory can be made again from the three, so a fleet may be killed at any moment
and opened again. Commands are carried out by the control loop (`control_loop.py`), in the order of the log.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.api.admission_controller import AdmissionController
from godwit.api.control_loop import REST_EVERY, ControlLoop
from godwit.api.control_loop import check as check_loop
from godwit.api.executor import Executor
from godwit.api.handles import DeviceHandle, QueryHandle
from godwit.api.operations import Operations
from godwit.api.options import AHEAD, check_options, declared
from godwit.api.query_aliases import QueryAliases
from godwit.api.reoptimiser import Reoptimiser
from godwit.api.topology_store import Ground
from godwit.control.commands import Alter, ChangeTopology, Connect, Declare, Place, Submit, Withdraw
from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    Event,
    HandoverDone,
    PlacesWished,
    QueryWithdrawn,
    RegionAcked,
)
from godwit.control.reoptimiser import Watching
from godwit.control.restore import Hints, restore
from godwit.engine import segments
from godwit.engine.analysis import Analyst
from godwit.engine.session import check_session, spark_session
from godwit.errors import DeploymentError, NotAttachedError, SourceError
from godwit.ids import DeviceId, QueryId, SiteId, StreamId
from godwit.ingest.derived import PRODUCER, Publisher
from godwit.ingest.gateway import Gateway
from godwit.ingest.schema import Rows, Schema, as_rows
from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource, stream_of_format
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.integrity import inspect
from godwit.maintenance.supervisor import Supervisor
from godwit.model.changes import Change, DeviceMoved
from godwit.model.deployment import Delta, Deployment
from godwit.model.plan import QUERY, Query, Stream
from godwit.observe.history import History
from godwit.observe.metrics import Metrics
from godwit.observe.status import Status
from godwit.observe.tracker import ReconfigurationTracker
from godwit.placement.rules.base import Wish
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits, Runner
from godwit.region.transfer import StateTransfer
from godwit.sql import Builder
from godwit.storage.base import Durability
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control, Standing
from godwit.storage.lock import FolderLock
from godwit.storage.store import Store
from godwit.testing.link_emulator import Links


class Fleet:
    """Continuous queries over a moving topology. `Fleet.embedded(folder)` runs all regions in this process."""

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        *,
        rule: str = "bottom-up",
        redeployment: str = "incremental",
        state: str = "delta",
        links: Links | None = None,
        admission: bool | str | None = None,
        reoptimise: bool | Watching = False,
        limits: Limits | None = None,
        retention: Retention | None = None,
        durability: Durability = "process",
        ack_timeout: float = 10.0,
        at: Callable[[str], None] = lambda moment: None,
        **misspelt: Never,
    ) -> None:
        check_options(Fleet.__init__, misspelt)
        check_session(spark)
        root = Path(root).resolve()  # Java keeps the working directory it was started in
        self.store = store = Store.local(root, durability)
        self.root, self.spark = root, spark
        self.folder_lock = FolderLock(root)
        self.folder_lock.take()
        inspect(store)
        #: whoever appends to a source log, or publishes an epoch, holds it; never while waiting for anything
        self.lock = self._lock = threading.RLock()
        control, commands = Control(store), CommandLog(store)
        self.analyst = Analyst(spark)
        self.gateway = Gateway(store)
        self.history = History(store)
        publisher = Publisher(self.gateway, self._lock, lambda: self.deployment)
        self.topology = Ground(self)
        self.carriage = StateTransfer(store, state, links, self.topology.path)
        self._events, self._news = deque[Event](), threading.Condition()
        tracker = ReconfigurationTracker(self.history, lambda i, epoch: self._post(HandoverDone(i, epoch)))
        acknowledge = lambda region, epoch: self._post(RegionAcked(region, epoch))  # noqa: E731
        told = [publisher.publish, tracker.committed]
        self.crew = RunnerPool(spark, store, limits or Limits(), at, told, self.carriage, acknowledge)
        self.gateway.appended, self.gateway.attaching = self.crew.wake, self.is_attached
        self.attendant = Supervisor(self, replace(retention or Retention(), backup=self.carriage.replays))
        self.metrics = Metrics(store, spark)
        self._opened: list[SparkSource] = []
        self.aliases = QueryAliases(store)
        standing, deployment = control.standing(), control.deployment_at(control.last)
        plane = ControlPlane(
            standing.topology,
            rule=rule,
            redeployment_strategy=redeployment,
            state=state,
            streams=deployment.streams,
            feeds=deployment.feeds,
            epoch=deployment.epoch,
        )
        self._executor = Executor(plane, control, self.gateway, self.crew, tracker, self._lock, self._post)
        self._operations = Operations(self)
        parts = (self.crew, self._events, self._news, ack_timeout)
        self.control = ControlLoop(self._executor, commands, self._operations.carry_out, *parts)
        self.door = AdmissionController(self, admission)
        self.reoptimiser = Reoptimiser(self, reoptimise)
        self._reopen(standing)

    @staticmethod
    def embedded(folder: str | Path, cores: int | None = None, **options: str) -> Fleet:
        """All regions share one local Spark session; logs and state lie in `folder`. Reopens what is there."""
        return Fleet(Path(folder), spark_session(cores=cores), **options)  # type: ignore[arg-type]

    # --- streams and devices

    def stream(
        self,
        name: str,
        schema: str,
        *,
        time: str = "ts",
        device: str | None = None,
        disorder: str | None = None,
        idle: str | None = None,
        ahead: str | None = AHEAD,
        site: str | None = None,
        mbps: float | None = None,
    ) -> Stream:
        """Declare a stream. `device`: the column that names the sender; without one, the stream itself is a device.

        `disorder`: how far a device's rows may lie behind its newest; `idle`: after how long a silent device that is
        attached no longer holds the clocks back; `ahead`: how far ahead of the wall clock its rows may be (None: any
        distance, for simulated time); `site`: where a stream without a device column is attached; `mbps`:
        what one device sends, for admission.
        """
        roles: dict[str, Any] = {"time": time, "device": device, "disorder": disorder, "idle": idle, "ahead": ahead}
        stream = declared(name, schema, self.deployment.streams, mbps=mbps, **roles)
        if self.deployment.streams.get(stream.id) != stream:
            self.control.execute(Declare(stream))
        if device is None:
            self.device(name, site=site, streams=[name])
        return stream

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> DeviceHandle:
        """A device and the streams it feeds; made known to the topology if it is new."""
        device = DeviceId(name)
        known = self.plane.topology.devices.get(device)
        fed = all(device in self.deployment.feeds.get(StreamId(s), ()) for s in streams)
        if known is None or not fed or (site is not None and known.site != site):
            self.control.execute(Connect(name, site, tuple(streams)))
        return DeviceHandle(self, device)

    def push(self, stream: str, rows: Rows, *, device: DeviceId | None = None, sequence: int | None = None) -> bool:
        """Rows enter the fleet: of one device, or of many told apart by the stream's device column."""
        until = time.monotonic() + self.control.ack_timeout
        rows = as_rows(stream, rows)  # once: a generator cannot be read again
        while True:
            try:
                with self._lock:
                    return self.gateway.push(StreamId(stream), rows, self.deployment, device, sequence)
            except NotAttachedError:
                # Attached for the first time, by an epoch that is on its way: nobody else can take its rows.
                if device is None or not self.is_attached(device) or time.monotonic() > until:
                    raise
                time.sleep(REST_EVERY)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        """Attached devices without rows say how far they have come (microseconds), so that windows can close."""
        with self._lock:
            self.gateway.tell(StreamId(stream), clocks, self.deployment)

    def is_attached(self, device: DeviceId) -> bool:
        """Whether a device is at a site, as far as is known; the epoch that says so may still be on its way."""
        known = self.plane.topology.devices.get(device)
        return known is not None and known.site is not None

    def move_device(self, device: DeviceId, site: SiteId | None) -> None:
        self.change([DeviceMoved(device, site)])

    def close_device(self, device: DeviceId) -> None:
        with self._lock:
            self.gateway.close(device, self.deployment)

    def reset_clock(self, device: DeviceId) -> None:
        with self._lock:
            self.gateway.reset_clock(device, self.deployment)

    def close_sources(self) -> None:
        """Nothing more comes from anybody: every window closes. Whoever sends later begins again."""
        with self._lock:
            for device in self.deployment.devices:
                if not device.startswith(PRODUCER):
                    self.gateway.close(device, self.deployment)

    def stream_of(self, device: DeviceId, stream: str | None) -> StreamId:
        """The stream a device's rows belong to; it must be named where the device feeds several."""
        fed = [s for s, devices in self.deployment.feeds.items() if device in devices]
        if stream is not None and stream in fed:
            return StreamId(stream)
        if stream is None and len(fed) == 1:
            return fed[0]
        asked = f", not '{stream}'" if stream else ""
        msg = f"device '{device}' feeds {fed or 'no stream'}; name one of them{asked}"
        raise SourceError(msg)

    def schema(self, stream: StreamId) -> Schema:
        return self.gateway.schema(stream)

    def replay(self, stream: str, files: str | Path | Sequence[str | Path], **options: Any) -> Replay:
        """Recorded files to be replayed into a stream; `.run()` or `.start()` it. Options as in `Replay`."""
        return Replay(self, StreamId(stream), files, **options)

    def ingest(self, stream: str, source: DataFrame | str, *, name: str = "spark", **options: str) -> SparkSource:
        """Feed a stream from a streaming DataFrame, or from a Spark format ("kafka") and its options."""
        rows = stream_of_format(self.spark, source, options) if isinstance(source, str) else source
        opened = SparkSource(self, StreamId(stream), rows, name)
        self._opened.append(opened)
        return opened.start()

    def dead_letters(self) -> list[dict[str, Any]]:
        """Rows that did not fit their stream, each with the reason."""
        return self.gateway.dead.read()

    # --- queries

    def submit(self, sql: str | Builder, name: str, *, sink: str | None = None) -> QueryHandle:
        """Check a query, place it and start it. SqlError says what cannot run continuously, and what would."""
        self.control.execute(Submit(name, sql if isinstance(sql, str) else sql.sql(), sink))
        return QueryHandle(self, QueryId(name))

    def withdraw(self, query: QueryId) -> None:
        """Stop a query; its results stay readable. An execution that others share goes on for them."""
        self.control.execute(Withdraw(query))

    def alter(self, query: QueryId, sql: str | Builder) -> QueryHandle:
        """Give a running query other parameters, by the same SQL with other literals. It begins again with them."""
        self.control.execute(Alter(query, sql if isinstance(sql, str) else sql.sql()))
        return QueryHandle(self, query)

    def query(self, name: str) -> QueryHandle:
        """A running query, by its name."""
        if name not in self.aliases.names(self.deployment):
            msg = f"there is no query '{name}'; running: {', '.join(self.aliases.names(self.deployment)) or 'none'}"
            raise DeploymentError(msg)
        return QueryHandle(self, QueryId(name))

    @property
    def queries(self) -> list[QueryId]:
        """The names of the running queries."""
        return self.aliases.names(self.deployment)

    def execution(self, query: QueryId) -> Query:
        """The query whose execution answers this one: itself, or its identical twin."""
        return self.aliases.runs(query, self.deployment)

    def results(self, query_id: QueryId) -> DataFrame:
        """Every committed result of a query, running or stopped."""
        query = self.execution(query_id)
        found = segments.frame(self.spark, self.crew.results(query.shape.key, query.id))
        columns = list(query.shape.plan.sink.columns)
        if found is None:
            return segments.empty(self.spark, self.analyst.output(query))
        return found.where(F.col(QUERY) == query.id).select(*columns)

    # --- the ground moves

    def change(self, changes: Iterable[Change]) -> None:
        """Topology changes happened: re-place what must move, and deploy it.

        Returns when the changes are published or, if regions are still to acknowledge the epoch before, soon after.
        """
        self.control.execute(ChangeTopology(tuple(changes)))

    def move(self, placement: dict[str, str], cause: str = "moved by hand") -> None:
        """Place instances by hand (`query/operator` -> site): they stay there, as long as the sites can host them."""
        self.control.execute(Place(placement, cause))

    def explain_change(self, changes: Iterable[Change]) -> str:
        """What these changes would do; nothing happens."""
        with self.control.driving():
            return self.plane.explain_change(changes)

    @property
    def plane(self) -> ControlPlane:
        return self._executor.plane

    @property
    def deployment(self) -> Deployment:
        """What is published."""
        return self._executor.deployment

    @property
    def parked(self) -> dict[QueryId, str]:
        """Queries that have no place now, with the reason."""
        return self._executor.parked

    def _post(self, event: Event) -> None:
        """Something has happened in a region."""
        with self._news:
            self._events.append(event)
            self._news.notify_all()

    def wish(self, wishes: Mapping[Wish, SiteId], cause: str) -> None:
        """Move operators of running queries to these sites, where they can be."""
        self.control.ask(PlacesWished(wishes, cause))

    def undeploy(self, query: QueryId) -> None:
        """Take a query off its sites."""
        self.control.ask(QueryWithdrawn(query))

    # --- running

    def start(self) -> None:
        """Let all regions run until `stop`."""
        self.folder_lock.take()
        self.metrics.listen()
        self.crew.start()
        self.attendant.start()
        self.control.start()

    def stop(self) -> None:
        self.metrics.ignore()  # what is broken off now has not failed
        self.control.stop()
        for source in self._opened:
            source.stop()
        self.crew.stop()
        self.attendant.stop()
        self.folder_lock.release()

    def status(self) -> Status:
        """What the fleet does and has done: rows, times, latencies, clocks, links, state, sinks, failures."""
        return self.metrics.status({**self.crew.failures(), **self.attendant.failures()})

    def process_available(self, timeout: float = 300.0) -> None:
        """Work until everything that was pushed has been answered."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            self.check()
            if self.crew.running:
                if self.crew.idle() and self.control.quiet:
                    return self.attendant.flush()
                time.sleep(0.02)
                continue
            self.control.turn()
            if not self.crew.step_all():
                if not self.crew.underway and self.control.quiet:
                    return self.attendant.flush()
                time.sleep(0.002)
        msg = f"the fleet was still busy after {timeout:g} s; `fleet.status()` shows with what"
        raise DeploymentError(msg)

    def check(self) -> None:
        """Raise if a region's runner, a sink or a source has failed."""
        for source in self._opened:
            source.check()
        check_loop(self.control)
        for name, failure in {**self.crew.failures(), **self.attendant.failures()}.items():
            msg = f"{name} has stopped: {failure}. Nothing is lost: open the fleet again once the cause is mended"
            raise DeploymentError(msg) from failure

    def keep_copies(self) -> None:
        """Copy deployment and topology beside the control log, now and then."""
        self._executor.log.copy_if_due(int(self.plane.coordinator.stable))

    def runners_of(self, shape: str) -> list[Runner]:
        return self.crew.of_shape(shape)

    def _reopen(self, standing: Standing) -> None:
        """Stand where an earlier process stood, by the logs alone; then carry out the commands that have no answer."""
        old = self.deployment
        places = [self.door.places(query, old) for query in old.queries.values()]
        wishes = {wish: site for hinted, _ in places for wish, site in hinted.items()}
        ways = {wish: way for _, known in places for wish, way in known.items()}
        restore(self.plane.planner, old, Hints(standing.sinks, standing.by_hand, wishes, ways))
        for stream in old.streams.values():
            self._operations.prepare(stream)
        with self._lock:
            self.gateway.follow(old.devices, old)  # the process may have died before it ended their sessions
        rows = Delta(queries=old.queries, feeds=old.feeds, devices=old.devices)
        self.crew.expect(Deployment(), rows, old)
        self.crew.hire()
        with self.control.driving():
            self._executor.carry_out(self.plane.coordinator.resume(standing.waiting))
            self.control.recover(standing.command)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
