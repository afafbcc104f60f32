"""The fleet: what users hold. Declares streams, attaches devices, submits queries, and keeps the regions running.

What users ask for is a command in the command log; what is decided is an epoch in the control log; what devices send is
an entry in a source log. All that is in memory can be made again from the three, so a fleet may be killed at any moment
and opened again. Commands are carried out by the control loop (`control_loop.py`), in the order of the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Never

from pyspark.sql import DataFrame, SparkSession

from godwit.api.core import FleetOptions
from godwit.api.handles import DeviceHandle, QueryHandle
from godwit.api.key_names import Keys, as_keys, in_words
from godwit.api.migrating import asked_keys, explain_keys
from godwit.api.options import AHEAD, check_options, declared, length
from godwit.api.running import RunningFleet
from godwit.api.tables import TableHandle, declared_table
from godwit.api.topology_store import TopologyStore
from godwit.client import RemoteFleet
from godwit.control.commands import (
    Alter,
    AlterStream,
    Connect,
    Declare,
    MigrateKeys,
    PlaceByHand,
    Replace,
    Replan,
    Submit,
    Withdraw,
)
from godwit.control.reoptimiser import Watching
from godwit.engine.session import check_session, spark_session
from godwit.errors import ConfigError, StateError
from godwit.ids import DeviceId, QueryId, SiteId, StreamId
from godwit.ingest.sources.broker_source import BrokerSource
from godwit.ingest.sources.replay import Replay
from godwit.ingest.sources.spark_source import SparkSource, json_messages, stream_of_format
from godwit.maintenance.housekeeping import Retention
from godwit.maintenance.savepoint import export, restore
from godwit.migration.phases import REPLICA
from godwit.migration.source_mobility import Following
from godwit.model.changes import Change
from godwit.model.explain import explain
from godwit.model.plan import Stream
from godwit.model.taps import PRODUCER
from godwit.region.link_emulator import Links
from godwit.region.runner import Limits
from godwit.replan.explain import explained
from godwit.replan.optimiser import ReplanPolicy
from godwit.replan.probing import explained as explained_probes
from godwit.replan.probing import probes
from godwit.replan.wishes import PlanWish
from godwit.sql import Builder, compile_query
from godwit.sql.keep import with_changes
from godwit.storage.base import Durability


class Fleet(RunningFleet):
    """Continuous queries over a moving topology. `Fleet.embedded(folder)` runs all regions in this process."""

    def __init__(
        self,
        root: Path | str,
        spark: SparkSession,
        *,
        rule: str = "bottom-up",
        redeployment: str = "incremental",
        state: str = "delta",
        links: Links | None = None,
        admission: bool | str | None = None,
        reoptimise: bool | Watching = False,
        mobility: bool | Following = False,
        replan: bool | ReplanPolicy = False,
        limits: Limits | None = None,
        retention: Retention | None = None,
        durability: Durability = "process",
        ack_timeout: float = 10.0,
        at: Callable[[str], None] = lambda moment: None,
        **misspelt: Never,
    ) -> None:
        check_options(Fleet.__init__, misspelt)
        check_session(spark)
        parts = (links, limits or Limits(), retention or Retention(), durability, ack_timeout, at)
        options = FleetOptions(rule, redeployment, state, *parts)
        super().__init__(root, spark, options, admission, reoptimise, mobility, replan)
        self.topology = TopologyStore(self)

    @staticmethod
    def embedded(folder: str | Path, cores: int | None = None, **options: str) -> Fleet:
        """All regions share one local Spark session; logs and state lie in `folder`. Reopens what is there."""
        return Fleet(Path(folder), spark_session(cores=cores), **options)  # type: ignore[arg-type]

    @staticmethod
    def connect(url: str, *, token: str | None = None) -> RemoteFleet:
        """A fleet behind `godwit serve`, with the same methods; what they return as DataFrames are lists of dicts."""
        return RemoteFleet(url, token)

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
        known = self.deployment.streams.get(stream.id)
        if known is None or not known.is_declared_by(stream):
            self.control.execute(Declare(stream))
        if device is None:
            self.device(name, site=site, streams=[name])
        return self.deployment.streams[stream.id]

    def alter_stream(self, name: str, *, add: str) -> Stream:
        """Give a stream columns more (`"color string, weight double"`) while everything runs. Rows that have come, and
        those of devices that do not send them, have NULL there; queries that run go on, new ones may read them."""
        self.control.execute(AlterStream(name, add))
        return self.deployment.streams[StreamId(name)]

    def table(
        self,
        name: str,
        schema: str,
        *,
        key: str | Sequence[str],
        disorder: str | None = None,
        site: str | None = None,
    ) -> TableHandle:
        """Declare a reference table, which queries join by its key (`JOIN t ON s.k = t.id`).

        `disorder`: how far into the past a change may reach, for which its readers wait; `site`: where its changes
        come in (the largest site, if it is not said).
        """
        known = next((k for k in self.deployment.streams if k != name and k.lower() == name.lower()), None)
        if known is not None:
            msg = f"table '{name}' is the same name to SQL as '{known}', which is declared; choose another name"
            raise ConfigError(msg)
        table = declared_table(name, schema, key, length(name, "disorder", disorder) if disorder else 0)
        if self.deployment.streams.get(table.id) != table:
            self.control.execute(Declare(table))
        sites = self.plane.topology.sites.values()
        largest = max(sites, key=lambda s: (s.cpu, s.id), default=None)
        placed = self.plane.topology.devices.get(DeviceId(name))
        home = site if site or placed is not None or largest is None else largest.id
        self.device(name, site=home, streams=[name])
        return TableHandle(self, table, self._opened)

    def device(self, name: str, *, site: str | None = None, streams: Sequence[str] = ()) -> DeviceHandle:
        """A device and the streams it feeds; made known to the topology if it is new."""
        device = DeviceId(name)
        known = self.plane.topology.devices.get(device)
        fed = all(device in self.deployment.feeds.get(StreamId(s), ()) for s in streams)
        if known is None or not fed or (site is not None and known.site != site):
            self.control.execute(Connect(name, site, tuple(streams)))
        return DeviceHandle(self, device)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        """Attached devices without rows say how far they have come (microseconds), so that windows can close."""
        with self.lock:
            self.gateway.check_clocks(StreamId(stream), clocks)
            self.gateway.tell(StreamId(stream), clocks, self.deployment)

    def close_sources(self) -> None:
        """Nothing more comes from anybody: every window closes. Whoever sends later begins again."""
        with self.lock:
            for device in self.deployment.devices:
                if not device.startswith(PRODUCER):
                    self.gateway.close(device, self.deployment)

    def replay(self, stream: str, files: str | Path | Sequence[str | Path], **options: Any) -> Replay:
        """Recorded files to be replayed into a stream; `.run()` or `.start()` it. Options as in `Replay`."""
        return Replay(self, StreamId(stream), files, **options)

    def ingest(self, stream: str, source: DataFrame | str, *, name: str = "spark", **options: str) -> SparkSource:
        """Feed a stream from a streaming DataFrame, or from a Spark format and its options; messages of "kafka" are
        JSON objects. The session must have the format's package (`spark.jars.packages`)."""
        rows = stream_of_format(self.spark, source, options) if isinstance(source, str) else source
        if source == "kafka":
            rows = json_messages(rows, self.schema(StreamId(stream)).stream)
        opened = SparkSource(self, StreamId(stream), rows, name)
        self._opened.append(opened)
        return opened.start()

    def follow(self, source: BrokerSource[Any]) -> None:
        """Let a source (`MqttSource(fleet, ...)`) feed its streams until the fleet stops."""
        self._opened.append(source)
        source.start()

    def dead_letters(self) -> list[dict[str, Any]]:
        """Rows that did not fit their stream, each with the reason."""
        return self.gateway.dead.read()

    # --- queries

    def function(self, name: str, call: Callable[..., Any], type_: str, *, arrow: bool = False) -> None:
        """A function for queries to call, which returns Spark's `type_`. It must be deterministic.

        `arrow`: it takes and returns Arrow arrays, a batch at a time. A program that opens the folder again declares
        its functions again.
        """
        self.functions.add(name, call, type_, arrow)

    def submit(
        self,
        sql: str | Builder,
        name: str,
        *,
        sink: str | None = None,
        emit: Literal["final", "changes"] = "final",
        joins: Literal["materialised", "stateless"] = "materialised",
    ) -> QueryHandle:
        """Check a query, place it and start it. SqlError says what cannot run continuously, and what would.

        `emit`: "changes" puts out what windows are so far, as rows that replace each other; "final" when they close.
        `joins`: "stateless" joins keep no intermediate rows: their order is changed in one epoch (`replan`), and every
        new row makes its combinations again.
        """
        text = sql if isinstance(sql, str) else sql.sql()
        self.control.execute(Submit(name, with_changes(text) if emit == "changes" else text, sink, joins))
        return QueryHandle(self, self.supervisor, QueryId(name))

    def withdraw(self, query: QueryId) -> None:
        """Stop a query; its results stay readable. An execution that others share goes on for them."""
        self.control.execute(Withdraw(query))

    def alter(self, query: QueryId, sql: str | Builder) -> QueryHandle:
        """Give a running query other parameters, in one epoch: by the same SQL with other literals, or, for literals
        that have a name (`boarded > 5 /* threshold */`), by `SET threshold = 7`.

        It begins anew with them: windows that are open answer for what comes from then on. Its results from before
        stay readable under its name.
        """
        self.control.execute(Alter(query, sql if isinstance(sql, str) else sql.sql()))
        return QueryHandle(self, self.supervisor, query)

    def replan(
        self,
        query: str,
        *,
        order: str = "",
        partial: bool | None = None,
        filters_up: Sequence[str] = (),
        filters_down: Sequence[str] = (),
        strategy: str = "auto",
        run_out: bool = False,
        dry_run: bool = False,
    ) -> str:
        """Another plan for a running query; its results go on, each of them once. `order`: how its streams are joined
        (`"(b JOIN c) JOIN a"`); `partial`: whether rows are combined before they travel; `filters_up`, `filters_down`:
        streams whose filters go above the joins, or back. `strategy`: moving-state, background, parallel-track,
        pause-drain-resume (`run_out`: by letting windows run out) or, for a query with probing joins, stateless-order.
        Returns when the change has begun; where both plans run side by side, the old one goes by itself later.
        `dry_run`: return what would be done.
        """
        wish, name = PlanWish(order, partial, tuple(filters_up), tuple(filters_down)), self.known(query)
        if dry_run and (node := probes(self.execution(name).shape.plan)) is not None:
            return explained_probes(self.execution(name), node, order)
        if dry_run:
            return explained(self.execution(name), wish, self.deployment.streams, self.replanner.load(name))
        self._operations.plans.rehearse(name, wish, strategy, run_out)
        self.control.execute(Replan(query, order, strategy, run_out, partial, wish.up, wish.down))
        return f"'{query}': {wish}"

    def replace(self, query: str, sql: str | Builder, *, dry_run: bool = False) -> str:
        """Give a running query another text, in one epoch; what both texts have below an operator goes on with its
        state. Returns which operators go on and which begin again; `dry_run`: and does nothing.

        What was due before the switch the old text has answered, the rest the new one answers.
        """
        text = sql if isinstance(sql, str) else sql.sql()
        with self.control.driving():
            told = self._operations.replacing.planned(self.known(query), text).explained()
        if not dry_run:
            self.control.execute(Replace(query, text))
        return told

    def explain(self, sql: str | Builder) -> str:
        """What a query would become: its plan, parameters and shape. Nothing happens."""
        text = sql if isinstance(sql, str) else sql.sql()
        query = compile_query(text, self.deployment.streams, QueryId("query"), (), self.functions.names)
        self.analyst.output(query)
        return explain(query)

    def query(self, name: str) -> QueryHandle:
        """A running query, by its name."""
        return QueryHandle(self, self.supervisor, self.known(name))

    # --- the ground moves

    def move(self, placement: dict[str, str], cause: str = "moved by hand") -> None:
        """Place instances by hand (`query/operator` -> site): they stay there, as long as the sites can host them."""
        self.control.execute(PlaceByHand(placement, cause))

    def replicate(self, query: str, *, keys: Keys, to: str, operator: int | None = None) -> None:
        """Keep a replica of the state of these keys at a site, refreshed every 500 ms with what has changed, until
        they migrate: `migrate(..., strategy="hot-backup")` to that site then moves the last difference alone. Given up
        when they go elsewhere, and when the fleet is closed."""
        self.control.execute(MigrateKeys(query, as_keys(keys), to, REPLICA, operator))

    def migrate(
        self,
        query: str,
        *,
        keys: Keys,
        to: str,
        strategy: str = "auto",
        operator: int | None = None,
        dry_run: bool = False,
    ) -> str:
        """Move keys of a running query to a site, live: listed ones, a pattern (`"S41-*"`), `("buckets", 0, 32)`, or
        `"*"` for all that no other route names. Many keys are best given as an Arrow column (or, where a key has
        several columns, as a table of them). Returns when the migration is taken on; `fleet.status()` and `godwit
        history` show how far it is. `dry_run`: move nothing, and return what would move where."""
        command = MigrateKeys(query, as_keys(keys), to, strategy, operator)
        if dry_run:
            with self.control.driving():
                return explain_keys(self, asked_keys(self, command))
        self.control.execute(command)
        return f"keys {in_words(command.keys)} of '{query}' go to {to}"

    def notify_handover(self, device: str, site: str) -> None:
        """The network says that a source is attached to another site (as in ETSI MEC's notifications): its rows come in
        there from now on, and its keys follow it. Needs `Fleet(mobility=True)`."""
        if self.mobility.following is None:
            msg = f"nothing follows '{device}': source mobility is off; open the fleet with mobility=True"
            raise ConfigError(msg)
        self.move_device(DeviceId(device), SiteId(site))
        self.mobility.notified(DeviceId(device), SiteId(site), time.time())

    def explain_change(self, changes: Iterable[Change]) -> str:
        """What these changes would do; nothing happens."""
        with self.control.driving():
            return self.plane.explain_change(changes)

    # --- savepoints

    def export(self, target: str | Path) -> int:
        """Write a savepoint: into a new folder, or a file named like `x.tar.gz`; returns its bytes. The fleet may be
        open, but not running. `Fleet.restore` makes a fleet of it that goes on from there."""
        folder = self.store.disk.root
        if self.store.objects is not None or not Path(folder).is_dir():
            msg = "savepoints are made of fleets in folders; copy a bucket with its own tools"
            raise ConfigError(msg)
        if self.pool.running:
            msg = f"the fleet in {folder} runs; stop it first, so that nothing is half written"
            raise StateError(msg)
        self.supervisor.flush()
        return export(Path(folder), Path(target), mine=True)

    @staticmethod
    def restore(savepoint: str | Path, folder: str | Path, cores: int | None = None, **options: Any) -> Fleet:
        """Open a savepoint in a folder of its own (which is new); options as for `Fleet`."""
        restore(Path(savepoint), Path(folder))
        return Fleet(Path(folder), spark_session(cores=cores), **options)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
