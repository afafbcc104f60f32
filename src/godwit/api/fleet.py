"""The fleet: what users hold. Declares streams, attaches devices, submits queries, and keeps the regions running.

Everything it decides becomes an epoch in the control log; everything it is told becomes an entry in a source log. What
it keeps in memory can be made again from the two, so a fleet may be killed at any moment and opened again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit import names
from godwit.api.admission_controller import AdmissionController, Let
from godwit.api.handles import DeviceHandle, QueryHandle
from godwit.api.inbox import Inbox
from godwit.api.options import AHEAD, check_changes, check_options, check_sink, declared
from godwit.api.query_aliases import QueryAliases
from godwit.api.reoptimiser import Reoptimiser
from godwit.api.topology_store import Ground
from godwit.control.control_plane import ControlPlane
from godwit.control.events import Instruction, Park, Publish, Resume, Revert
from godwit.control.events import Record as StoryRecord
from godwit.control.reoptimiser import Watching
from godwit.engine import segments
from godwit.engine.analysis import Analyst
from godwit.engine.session import check_session, spark_session
from godwit.errors import DeploymentError, SourceError, SqlError
from godwit.ids import DeviceId, Epoch, NodeId, OperatorId, QueryId, SiteId, StreamId
from godwit.ingest.derived import PRODUCER, Publisher, producer
from godwit.ingest.gateway import Gateway
from godwit.ingest.schema import Rows, Schema
from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource, stream_of_format
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.supervisor import Supervisor
from godwit.model.changes import Change, DeviceAdded, DeviceMoved, DeviceRemoved
from godwit.model.deployment import Delta, between, split_instance
from godwit.model.plan import QUERY, Column, Query, Stream
from godwit.model.topology import Device, Topology
from godwit.observe.history import History
from godwit.observe.metrics import Metrics
from godwit.observe.status import Status
from godwit.observe.tracker import ReconfigurationTracker
from godwit.placement.rules.base import Wish
from godwit.region.pool import RunnerPool
from godwit.region.runner import Limits, Runner
from godwit.region.transfer import StateTransfer
from godwit.sql import Builder, compile_query
from godwit.sql.sharing import begins
from godwit.storage.epoch_log import Control
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
        at: Callable[[str], None] = lambda moment: None,
        **misspelt: Never,
    ) -> None:
        check_options(Fleet.__init__, misspelt)
        check_session(spark)
        root = Path(root).resolve()  # Java keeps the working directory it was started in
        self.root, self.spark = root, spark
        root.mkdir(parents=True, exist_ok=True)
        #: whoever decides, or appends to a source log, holds it
        self.lock = self._lock = threading.RLock()
        #: one decision after the other; taken before the lock, and held while stages wait for each other
        self.deciding = self._deciding = threading.RLock()
        self._strategies = {"rule": rule, "redeployment_strategy": redeployment, "state": state}
        self._control = Control(root)
        self._analyst = Analyst(spark)
        self.gateway = Gateway(root)
        self.history = History(root)
        publisher = Publisher(self.gateway, self._lock, lambda: self.deployment)
        self.topology = Ground(self)
        self.carriage = StateTransfer(root, state, links, self.topology.path)
        self.chronicle = ReconfigurationTracker(
            self.history, lambda: list(self.crew.runners.values()), self._handed_over
        )
        told = [publisher.publish, self.chronicle.committed]
        self.crew = RunnerPool(spark, root, limits or Limits(), at, told, self.carriage)
        self.attendant = Supervisor(self, replace(retention or Retention(), backup=self.carriage.replays))
        self.metrics = Metrics(root, spark)
        self.inbox = Inbox(self)
        self.deployment = self._control.deployment_at(self._control.last)
        self.parked: dict[QueryId, str] = {}
        self._opened: list[SparkSource] = []
        self._twins = QueryAliases(root)
        self.door = AdmissionController(self, admission)
        self.reoptimiser = Reoptimiser(self, reoptimise)
        self._plane = ControlPlane(Topology(), automatic=True, **self._strategies)  # type: ignore[arg-type]
        self._reopen()

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
        with self._deciding, self._lock:
            self._declare(stream)
            if device is None:
                self.device(name, site=site, streams=[name])
        return stream

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> DeviceHandle:
        """A device and the streams it feeds; made known to the topology if it is new."""
        return self._device(DeviceId(names.check("device", name)), site, streams)

    def _device(self, device: DeviceId, site: str | None, streams: Sequence[str]) -> DeviceHandle:
        with self._deciding, self._lock:
            known = self._plane.topology.devices.get(device)
            if known is None:
                self._change([DeviceAdded(Device(device, SiteId(site) if site else None))])
            elif site is not None and known.site != site:
                self._change([DeviceMoved(device, SiteId(site))])
            new = [StreamId(s) for s in streams if device not in self.deployment.feeds.get(StreamId(s), ())]
            if new:
                self._carry_out(self._plane.feed(device, new))
                self._sync(f"{device} feeds {', '.join(new)}")
                self.gateway.follow([device], self.deployment)
        return DeviceHandle(self, device)

    def push(self, stream: str, rows: Rows, *, device: DeviceId | None = None, sequence: int | None = None) -> bool:
        """Rows enter the fleet: of one device, or of many told apart by the stream's device column."""
        with self._lock:
            return self.gateway.push(StreamId(stream), rows, self.deployment, device, sequence)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        """Attached devices without rows say how far they have come (microseconds), so that windows can close."""
        with self._lock:
            self.gateway.tell(StreamId(stream), clocks, self.deployment)

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
        text = sql if isinstance(sql, str) else sql.sql()
        names.check("query", name)
        with self._deciding:
            check_sink(name, sink, self._plane.topology)
            query = compile_query(text, self.deployment.streams, QueryId(name))
            candidates = self.door.orders(query)  # without the lock: rows come in meanwhile
            with self._lock:
                return self._submit(query, candidates, sink)

    def _submit(self, query: Query, candidates: Sequence[Query], sink: str | None) -> QueryHandle:
        if query.id in self.deployment.queries or query.id in self._twins.names(self.deployment):
            msg = f"there is a query '{query.id}' already; stop it first or choose another name"
            raise DeploymentError(msg)
        columns = self._analyst.output(query)
        twin = self._twins.find(query, self.deployment)
        if twin is not None:
            self._twins.join(query.id, twin)
            return QueryHandle(self, query.id)
        admitted = self.door.admit(candidates)
        for part, stream in admitted.starting:
            self.deploy(part, stream.columns, admitted.sinks[part.id], admitted)
        pinned = sink or (self._plane.planner.default_root() if query.target else None)
        self.deploy(begins(admitted.reader, int(self.deployment.epoch) + 1), columns, pinned, admitted)
        self.door.settle(admitted)
        return QueryHandle(self, query.id)

    def deploy(self, query: Query, columns: tuple[Column, ...], sink: str | None, let: Let) -> None:
        """Place a query that was let in, and start it."""
        places, ways = ({wish: v for wish, v in told.items() if wish[0] == query.id} for told in (let.wishes, let.ways))
        self._carry_out(self._plane.submit(query, SiteId(sink) if sink else None, places, ways))  # type: ignore[arg-type]
        self._sync(f"submit {query.id}")
        self.gateway.repeat_ends(scan.stream for _, scan in query.shape.plan.scans)
        if query.target is not None:
            self._derive(query, columns)

    def undeploy(self, query: QueryId) -> None:
        """Take a query off its sites."""
        self._carry_out(self._plane.withdraw(query))
        self._sync(f"withdraw {query}")

    def wish(self, wishes: Mapping[Wish, SiteId], cause: str) -> None:
        """Move operators of running queries to these sites, where they can be."""
        with self._deciding, self._lock:
            self._carry_out(self._plane.wish(wishes, cause))
            self._sync(cause)

    def withdraw(self, query: QueryId) -> None:
        """Stop a query; its results stay readable. An execution that others share goes on for them."""
        with self._deciding, self._lock:
            self.query(query)
            ended = self._twins.leave(query, self.deployment)
            if ended is not None:
                self.undeploy(ended.id)
                self.door.leave(ended)

    def query(self, name: str) -> QueryHandle:
        """A running query, by its name."""
        if name not in self._twins.names(self.deployment):
            msg = f"there is no query '{name}'; running: {', '.join(self._twins.names(self.deployment)) or 'none'}"
            raise DeploymentError(msg)
        return QueryHandle(self, QueryId(name))

    @property
    def queries(self) -> list[QueryId]:
        """The names of the running queries."""
        return self._twins.names(self.deployment)

    def execution(self, query: QueryId) -> Query:
        """The query whose execution answers this one: itself, or its identical twin."""
        return self._twins.runs(query, self.deployment)

    def results(self, query_id: QueryId) -> DataFrame:
        """Every committed result of a query, running or stopped."""
        query = self.execution(query_id)
        found = segments.frame(self.spark, self.crew.results(query.shape.key, query.id))
        columns = list(query.shape.plan.sink.columns)
        if found is None:
            return segments.empty(self.spark, self._analyst.output(query))
        return found.where(F.col(QUERY) == query.id).select(*columns)

    def _derive(self, query: Query, columns: tuple[Column, ...]) -> None:
        """The results of an INSERT become rows of a stream."""
        assert query.target is not None
        sink = query.shape.plan.sink
        if sink.time is None:
            msg = f"'{query.target}' would have no event time"
            raise SqlError(msg, place=query.sql, remedy="select a time column, e.g. window.end")
        if query.target not in self.deployment.streams:
            names = tuple(Column(given, c.type) for given, c in zip(query.output, columns, strict=True))
            self._declare(Stream(query.target, names, query.output[sink.columns.index(sink.time)]))
        place = self.deployment.placement.get(OperatorId(f"{query.id}/{len(query.shape.plan.operators) - 1}"))
        self._device(producer(query.id), str(place) if place else None, [query.target])

    def _declare(self, stream: Stream) -> None:
        known = self.deployment.streams.get(stream.id)
        if known is not None and known != stream:
            msg = f"stream '{stream.id}' is declared already, and differently; choose another name"
            raise SourceError(msg)
        schema = self._analyst.declare(stream)
        self.gateway.declare(schema, set(self.deployment.sites.values()))
        self._plane.declare(stream)
        if known is None:
            self._publish(Delta(streams={stream.id: stream}, cause=f"declare {stream.id}"))

    # --- the ground moves

    def change(self, changes: Iterable[Change]) -> None:
        """Topology changes happened: re-place what must move, and deploy it.

        Where a strategy redeploys in several stages, each waits until all regions work under the one before.
        """
        changes = list(changes)
        check_changes(changes)
        with self._deciding:
            planned = self._change(changes, stepwise=self.crew.running)
            while self._plane.unfinished:
                self.crew.await_epoch(self.deployment.epoch)  # without the lock: rows come in meanwhile
                with self._lock:
                    self._carry_out(self._plane.go_on(), planned)
                    self._sync("next stage")

    def _change(self, changes: Iterable[Change], stepwise: bool = False) -> float:
        """Plan for the changes and publish the (first) stage; the seconds that planning took."""
        changes = list(changes)
        with self._lock:
            began = time.perf_counter()
            told = self._plane.change(changes, stepwise)
            planned = time.perf_counter() - began
            self._carry_out(told, planned)
            self._sync(", ".join(type(c).__name__ for c in changes))
            self.gateway.follow([c.device for c in changes if isinstance(c, DeviceMoved)], self.deployment)
            for change in changes:
                if isinstance(change, DeviceRemoved):
                    self.gateway.close(change.device, self.deployment)
            self.topology.save(self._plane.topology)
        return planned

    def move(self, placement: dict[str, str], cause: str = "moved by hand") -> None:
        """Place instances by hand (`query/operator` -> site), past the planner: for tests and experiments."""
        with self._deciding, self._lock:
            for instance in placement:
                query, operator, _ = split_instance(OperatorId(instance))
                known = self.deployment.queries.get(query)
                if known and known.target and operator == len(known.shape.plan.operators) - 1:
                    msg = f"'{query}' feeds stream '{known.target}': its sink is pinned. Move its other operators"
                    raise DeploymentError(msg)
            self._publish(Delta(placement={OperatorId(i): NodeId(s) for i, s in placement.items()}, cause=cause))

    def explain_change(self, changes: Iterable[Change]) -> str:
        """What these changes would do; nothing happens."""
        return self._plane.explain_change(changes)

    @property
    def plane(self) -> ControlPlane:
        return self._plane

    def _carry_out(self, instructions: Iterable[Instruction], planned: float = 0.0) -> None:
        """Do what the control plane has decided; `planned`: the seconds that took, for the story."""
        began = time.perf_counter()
        for instruction in instructions:
            match instruction:
                case Publish() | Revert():
                    before = self.deployment
                    self._publish(instruction.delta)
                    self.chronicle.published(instruction.epoch, before, self.deployment)
                case Park(query, reason):
                    self.parked[query] = reason
                case Resume(query):
                    self.parked.pop(query, None)
                case StoryRecord(story):
                    self.chronicle.tell(story.timed("plan", planned).timed("publish", time.perf_counter() - began))
                case _:
                    pass

    def _handed_over(self, instance: OperatorId, epoch: Epoch) -> None:
        with self._lock:
            self._carry_out(self._plane.handed_over(instance, epoch))

    def _sync(self, cause: str) -> None:
        """The control log says what the control plane has planned, to the row."""
        delta = between(self.deployment, self._plane.deployment, cause)
        if delta is not None:
            self._publish(delta)

    def _publish(self, delta: Delta) -> None:
        starts = self.gateway.starts(set(self.deployment.sites.values()))
        self._control.publish(delta, starts)
        self.deployment = self.deployment.apply(delta)
        self.crew.arrange(self.deployment)

    # --- running

    def start(self) -> None:
        """Let all regions run until `stop`."""
        self.metrics.listen()
        self.crew.start()
        self.attendant.start()
        self.inbox.start()

    def stop(self) -> None:
        self.metrics.ignore()  # what is broken off now has not failed
        self.inbox.stop()
        for source in self._opened:
            source.stop()
        self.crew.stop()
        self.attendant.stop()

    def status(self) -> Status:
        """What the fleet does and has done: rows, times, latencies, clocks, links, state, sinks, failures."""
        return self.metrics.status({**self.crew.failures(), **self.attendant.failures()})

    def process_available(self, timeout: float = 300.0) -> None:
        """Work until everything that was pushed has been answered."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            self.check()
            if self.crew.running:
                if self.crew.idle():
                    return self.attendant.flush()
                time.sleep(0.02)
            elif not self.crew.step_all():
                if not self.crew.underway:
                    return self.attendant.flush()
                time.sleep(0.002)
        msg = f"the fleet was still busy after {timeout:g} s; `fleet.status()` shows with what"
        raise DeploymentError(msg)

    def check(self) -> None:
        """Raise if a region's runner, a sink or a source has failed."""
        for source in self._opened:
            source.check()
        for name, failure in {**self.crew.failures(), **self.attendant.failures()}.items():
            msg = f"{name} has stopped: {failure}. Nothing is lost: open the fleet again once the cause is mended"
            raise DeploymentError(msg) from failure

    def runners_of(self, shape: str) -> list[Runner]:
        return self.crew.of_shape(shape)

    def _reopen(self) -> None:
        """Make again from the logs what an earlier process had in memory."""
        topology = self.topology.saved()
        if topology is None:
            return
        old = self.deployment
        self._plane = ControlPlane(
            topology,
            streams=old.streams,
            feeds=old.feeds,
            automatic=True,
            **self._strategies,  # type: ignore[arg-type]
        )
        self._plane.recall(old)
        for stream in old.streams.values():
            schema = self._analyst.declare(stream)
            self.gateway.declare(schema, set(old.sites.values()))
        self.gateway.follow(old.devices, old)  # what has changed since ends sessions that the logs may not know of
        for query in old.queries.values():
            for instruction in self._plane.submit(query, *self.door.places(query, old)):
                if isinstance(instruction, Park):
                    self.parked[instruction.query] = instruction.reason
        self.crew.arrange(self.deployment)
        self._sync("opened again")
        self.gateway.follow(self.deployment.devices, self.deployment)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
