"""The parts of a fleet and how they hang together; `Fleet` is what users see of it.

Whatever works on a fleet from inside (commands, admission, sources, handles, the oracle) gets the core. It knows the
logs, the gateway, the runners and the control loop, and none of those who use it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.api.control_loop import REST_EVERY, ControlLoop
from godwit.api.executor import Executor
from godwit.api.query_aliases import QueryAliases
from godwit.api.query_versions import QueryVersions
from godwit.control.commands import ChangeTopology, Command
from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    DevicesForgotten,
    Event,
    HandoverDone,
    KeysArrived,
    PlacesHinted,
    QueryWithdrawn,
    RegionAcked,
)
from godwit.delivery.dispatcher import Dispatcher
from godwit.engine import segments
from godwit.engine.analysis import Analyst
from godwit.engine.upserts import hidden, latest
from godwit.engine.user_functions import UserFunctions
from godwit.errors import DeploymentError, NotAttachedError, SourceError, StoreAwayError
from godwit.ids import DeviceId, Epoch, NodeId, QueryId, RegionId, SiteId, StreamId
from godwit.ingest.batches import MeanwhileError, together
from godwit.ingest.derived import Publisher
from godwit.ingest.gateway import Gateway
from godwit.ingest.pipeline import WINDOW, Pipeline
from godwit.ingest.push_gate import PushGate
from godwit.ingest.rows import Rows
from godwit.ingest.schema import Schema
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.integrity import inspect
from godwit.model.change_text import as_changes
from godwit.model.changes import Change, DeviceMoved
from godwit.model.deployment import Deployment
from godwit.model.plan import QUERY, Column, Query
from godwit.observe.history import History
from godwit.observe.metrics import Metrics
from godwit.observe.tracker import ReconfigurationTracker
from godwit.operators.schema import row_columns
from godwit.placement.rules.base import HintKey
from godwit.protocol.handover import Migration
from godwit.region.link_delays import LinkDelays
from godwit.region.link_emulator import Links
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits, Runner
from godwit.region.transfer import StateTransfer
from godwit.replan.matching import match
from godwit.storage.base import Durability
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control
from godwit.storage.log import Record
from godwit.storage.names import PROCESSES
from godwit.storage.open_store import lock_of, no_processes, open_store
from godwit.storage.store import Store


@dataclass(frozen=True)
class FleetOptions:
    """How a fleet works; `Fleet` has the same as keywords."""

    #: where operators go
    rule: str = "bottom-up"
    redeployment: str = "incremental"
    #: how the state of a moved instance travels
    state: str = "delta"
    links: Links | None = None
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    durability: Durability = "process"
    #: seconds after which a region that has not acknowledged an epoch counts as lost
    ack_timeout: float = 10.0
    #: called at the moments of every micro-batch: for tests
    at: Callable[[str], None] = lambda moment: None


@dataclass(frozen=True)
class Elsewhere:
    """What a control plane needs whose regions are run by other processes."""

    #: asks one of them what Spark says of a query
    analyst: Any
    #: knows where their source logs stand, and writes none
    gateway: Any


class FleetCore(ABC):
    """Logs, gateway, runners and control loop of one fleet in one folder."""

    def __init__(
        self,
        root: Path | str | Store,
        spark: SparkSession | None,
        options: FleetOptions,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """`root`: a folder, or the URL of a store; `elsewhere`: regions are other processes, this one has no Spark."""
        self._spark = spark
        if not isinstance(root, Store):
            root = open_store(root, options.durability, alone=elsewhere is None)  # (alone: see the lock)
        self.store = store = root
        self.folder_lock = lock_of(store, "")
        self.folder_lock.take()
        if elsewhere is None:
            no_processes(store)
        #: regions of other processes whose logs could not be reached when this one was started
        self.uninspected = inspect(store)
        if self.uninspected and elsewhere is None:
            away = ", ".join(sorted(self.uninspected))
            msg = f"the logs of {away} cannot be reached now; open the fleet when they can be"
            raise StoreAwayError(msg)
        #: held while appending to a source log or publishing an epoch; never while waiting for anything
        self.lock = threading.RLock()
        #: pushes of sources that go back and forth between edges wait here for a moment
        self.gate = PushGate()
        self._events, self._news = deque[Event](), threading.Condition()
        self._elsewhere = elsewhere
        self.analyst: Analyst = Analyst(self.spark) if elsewhere is None else elsewhere.analyst
        self.gateway: Gateway = Gateway(store) if elsewhere is None else elsewhere.gateway
        self.history = History(store)
        self.functions = UserFunctions(() if elsewhere is not None else (self.spark, self.analyst.session))
        control, commands = Control(store), CommandLog(store)  # first: who reads the folder looks for its control log
        self.metrics, self.aliases, self.versions = Metrics(store, spark), QueryAliases(store), QueryVersions(store)  # type: ignore[arg-type]
        landing = "landing" if elsewhere is None else f"{PROCESSES}/landing"  # (a region's process has its own)
        self.transfer = StateTransfer(store, options.state, options.links, self.path, landing)
        self.retention = replace(options.retention, backup=self.transfer.replays)
        tracker = ReconfigurationTracker(self.history, lambda i, epoch: self._post(HandoverDone(i, epoch)))
        self.tracker = tracker
        #: whether ways between regions have a speed or a latency here
        self.has_links = options.links is not None
        self._delays = LinkDelays(options.links) if options.links and options.links.round_trip_ms else None
        tracker.keys_arrived = self._keys_arrived
        self.dispatcher = Dispatcher(store)
        publisher = Publisher(self.gateway, self.lock, lambda: self.deployment)
        followers = [self._deliver, publisher.publish, tracker.committed]
        parts = (options.limits, options.at, followers, self.transfer, self._acknowledged, self._delays)
        self.pool = RunnerPool(spark, store, *parts, here=lambda region: elsewhere is None)  # type: ignore[arg-type]
        self.gateway.appended, self.gateway.attached = self.pool.wake, self._attached
        self.standing, deployment = control.standing(), control.deployment_at(control.last)
        plane = ControlPlane(
            self.standing.topology,
            rule=options.rule,
            redeployment_strategy=options.redeployment,
            state=options.state,
            streams=deployment.streams,
            feeds=deployment.feeds,
            epoch=deployment.epoch,
        )
        self.executor = Executor(plane, control, self.gateway, self.pool, tracker, self.lock, self._post)
        #: the last epoch at which it was seen to that there are copies
        self._copied = -1
        waits = (self._events, self._news, options.ack_timeout)
        self.control = ControlLoop(self.executor, commands, self.carry_out, self.pool, *waits)

    @property
    def root(self) -> Path:
        """The folder of the fleet; of a bucket or a broker, where its files lie here."""
        return Path(self.store.disk.root)

    @property
    def spark(self) -> SparkSession:
        assert self._spark is not None, "the regions of this fleet run in other processes"
        return self._spark

    @abstractmethod
    def check(self) -> None:
        """Raise if a region's runner, a sink or a source has failed."""

    @abstractmethod
    def carry_out(self, command: Command, again: bool) -> None:
        """Do what a command asks for; `again`: an earlier process may have begun with it."""

    # --- what is published and known

    @property
    def plane(self) -> ControlPlane:
        return self.executor.plane

    @property
    def deployment(self) -> Deployment:
        """What is published."""
        return self.executor.deployment

    @property
    def parked(self) -> dict[QueryId, str]:
        """Queries that have no place now, with the reason."""
        return self.executor.parked

    def path(self, source: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """Over which sites state goes from one to another; None: over none that are there now."""
        now = self.plane.topology
        return now.path(source, target) if now.has(source) and now.has(target) else None

    def is_attached(self, device: DeviceId) -> bool:
        """Whether a device is at a site, as far as is known; the epoch that says so may still be on its way."""
        known = self.plane.topology.devices.get(device)
        return known is not None and known.site is not None

    def _attached(self, device: DeviceId) -> bool | None:
        known = self.plane.topology.devices.get(device)
        return None if known is None else known.site is not None

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

    def execution(self, query: QueryId) -> Query:
        """What runs under a query's name: itself, or its newest version."""
        return self.aliases.runs(query, self.deployment)

    def lineage(self, query: Query) -> list[Query]:
        """A query's execution and those of the same text whose state it went on with, the first one first."""
        found = [query]
        while (earlier := self.before(found[0])) is not None and earlier.sql == query.sql:
            found.insert(0, earlier)
        return found

    def before(self, query: Query) -> Query | None:
        """The execution that it took over from, if that is remembered."""
        return None if query.inherits is None else self.aliases.execution(query.inherits, self.deployment)

    def _totals(self, query: Query) -> set[QueryId]:
        """Executions whose totals a query's own replace: those that it has gone on with, whatever their text."""
        found, now = {query.id}, query
        while (before := self.before(now)) is not None:
            if before.sql != now.sql and not match(before, now, self.deployment.streams).complete:
                break
            found.add(before.id)
            now = before
        return found

    def runners_of(self, shape: str) -> list[Runner]:
        return self.pool.of_shape(shape)

    def rows_of(self, query: Query, operator: int) -> tuple[Column, ...]:
        """The typed columns of an operator's rows."""
        if self._elsewhere is None:
            return row_columns(self.analyst.session, query, operator)
        found: tuple[Column, ...] = self._elsewhere.analyst.rows_of(query, operator)
        return found

    def results(self, query_id: QueryId) -> DataFrame:
        """Every committed result of a query, running or stopped, also from before it was altered; of results that
        replace each other the newest."""
        return latest(self.changes(query_id), self.execution(query_id).shape.plan.sink)

    def results_of(self, query: Query) -> DataFrame:
        """The committed results of one execution."""
        executions = {version.id for version in self.lineage(query)}
        return latest(self._committed(query, executions), query.shape.plan.sink)

    def changes(self, query_id: QueryId) -> DataFrame:
        """The results as they were committed, also those that were replaced, with the columns that say so."""
        query = self.execution(query_id)
        sink = query.shape.plan.sink
        # A total of an earlier version is replaced by one of the newest only where that has gone on with it.
        earlier = self.versions.of(query_id) if sink.key is None else self._totals(query)
        known = {name: self.aliases.execution(name, self.deployment) for name in earlier}
        # Results under other columns ended with their text.
        same = {name for name, one in known.items() if one is None or one.shape.plan.sink.written == sink.written}
        return self._committed(query, {*same, query.id})

    def _committed(self, query: Query, executions: AbstractSet[QueryId]) -> DataFrame:
        # Versions with another plan have another shape, and their results lie there.
        versions = [known for name in executions if (known := self.aliases.execution(name, self.deployment))]
        shapes = dict.fromkeys([query.shape.key, *(version.shape.key for version in versions)])
        there = [segment for shape in shapes for segment in self.pool.results(shape, *executions)]
        found = segments.frame(self.spark, there)
        sink = query.shape.plan.sink
        if found is None:
            return segments.empty(self.spark, [*self.analyst.output(query), *hidden(sink)])
        return found.where(F.col(QUERY).isin(*executions)).select(*sink.written)

    # --- rows come in, things change

    def push(
        self,
        stream: str,
        rows: Rows,
        *,
        device: DeviceId | None = None,
        sequence: int | None = None,
        dead: list[dict[str, Any]] | None = None,
    ) -> bool:
        """Rows enter the fleet: of one device, or of many, by the stream's device column. `dead` is filled with those
        that did not fit, each with the reason."""
        return self._push(StreamId(stream), rows, device, sequence, dead=dead)

    def push_many(
        self,
        stream: str,
        batches: Sequence[tuple[int, Rows]],
        device: DeviceId,
        dead: list[dict[str, Any]] | None = None,
    ) -> int:
        """Numbered batches of a device, in order: one entry of its source log for those that are new; how many. `dead`:
        see `push`."""
        name, taken = StreamId(stream), 0
        self.gateway.schema(name)
        for group in together(stream, batches):
            while (fresh := group.after(known := self.gateway.sequence(name, str(device)))).parts:
                with contextlib.suppress(MeanwhileError):
                    if self._push(name, fresh.table, device, fresh.last, known, dead):
                        taken += len(fresh.parts)
                        break
        return taken

    def pipeline(self, window: int = WINDOW) -> Pipeline:
        """Pushes that need not wait for each other: at most `window` of a device's are on their way."""
        return Pipeline(lambda stream, rows, of, dead: self.push_many(stream, rows, DeviceId(of), dead), window)

    def _push(
        self,
        stream: StreamId,
        rows: Rows,
        device: DeviceId | None,
        sequence: int | None,
        after: int | None = None,
        dead: list[dict[str, Any]] | None = None,
    ) -> bool:
        until = time.monotonic() + self.control.ack_timeout
        if self.gateway.is_known(stream, device, sequence):
            return False
        conformed = self.gateway.conform(stream, rows, device)
        while True:
            try:
                if device is not None and self.gate.holds(device) and conformed.table.num_rows:
                    first = pc.min(conformed.table[self.deployment.streams[stream].time])
                    self.gate.wait(device, first.cast("int64").as_py())
                with self.lock:  # only now: an epoch that is published meanwhile, or another push, need not wait
                    taken = self.gateway.push(stream, conformed, self.deployment, device, sequence, after)
                if taken and dead is not None:
                    dead += conformed.dead
                return taken
            except NotAttachedError:
                # Attached for the first time, by an epoch that is on its way: no other process can take its rows.
                if device is None or not self.is_attached(device) or time.monotonic() > until:
                    raise
                time.sleep(REST_EVERY)

    def unread(self, stream: str) -> int:
        """How many entries of a stream its slowest reader is behind; 0 without readers."""
        if not self.pool.running:
            return 0
        regions, name = set(self.deployment.sites.values()), StreamId(stream)
        return max((self.pool.unread(r, name, self.gateway.log(r, name).log.last) for r in regions), default=0)

    def change(self, changes: Change | str | Iterable[Change | str]) -> None:
        """Topology changes happened ("device t1 -> east", or as values): re-place what must move, and deploy it.

        Returns when the changes are published or, if regions are still to acknowledge the epoch before, soon after.
        """
        self.control.execute(ChangeTopology(as_changes(changes)))

    def move_device(self, device: DeviceId, site: SiteId | None) -> None:
        self.change([DeviceMoved(device, site)])

    def close_device(self, device: DeviceId) -> None:
        with self.lock:
            self.gateway.close(device, self.deployment)

    def reset_clock(self, device: DeviceId) -> None:
        with self.lock:
            self.gateway.sessions.reset_clock(device, self.deployment)

    @property
    def queries(self) -> list[QueryId]:
        """The names of the running queries."""
        return self.aliases.names(self.deployment)

    def known(self, query: str) -> QueryId:
        """The name of a running query; DeploymentError lists those that run."""
        if query not in self.queries:
            msg = f"there is no query '{query}'; running: {', '.join(self.queries) or 'none'}"
            raise DeploymentError(msg)
        return QueryId(query)

    def hint(self, hints: Mapping[HintKey, SiteId], cause: str) -> None:
        """Move operators of running queries to these sites, where they can be."""
        self.control.ask(PlacesHinted(hints, cause))

    def undeploy(self, query: QueryId) -> None:
        """Take a query off its sites."""
        self.control.ask(QueryWithdrawn(query))

    def departed(self) -> dict[DeviceId, dict[tuple[RegionId, StreamId], int]]:
        """Devices that have left and are still known, with the entries that end what they sent."""
        with self.lock:
            gone = self.deployment.stays.keys() - self.deployment.devices.keys()
            return {device: self.gateway.sessions.left_at(device) for device in gone}

    def forget_devices(self, devices: AbstractSet[DeviceId]) -> None:
        """Every region has read what these devices sent before they left."""
        if devices:
            self._post(DevicesForgotten(frozenset(devices)))

    def keep_copies(self) -> None:
        """Copy deployment and topology beside the control log, now and then."""
        stable = int(self.plane.coordinator.stable)
        if stable != self._copied:  # (an idle fleet leaves its disk alone)
            self.executor.log.copy_if_due(stable)
            self._copied = stable

    def _deliver(self, runner: Runner, number: int, record: Record) -> None:
        self.dispatcher.committed(runner.region, runner.shape.key, number, record)

    def _acknowledged(self, region: RegionId, epoch: Epoch) -> None:
        self._post(RegionAcked(region, epoch))

    def _keys_arrived(self, move: Migration) -> None:
        if self._delays is None:
            self._post(KeysArrived(move))
        else:
            self._delays.reports(move.target, lambda: self._post(KeysArrived(move)))

    def _post(self, event: Event) -> None:
        """Something has happened in a region."""
        with self._news:
            self._events.append(event)
            self._news.notify_all()
