"""What each command does to a fleet: which questions go to the coordinator, and what is prepared before and after.

Called by the control loop, one command at a time. Every question waits until the epoch before it is in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from godwit import names
from godwit.api.admission_controller import AdmissionController, Let
from godwit.api.core import FleetCore
from godwit.api.lulls import Lulls
from godwit.api.migrating import asked_keys
from godwit.api.options import check_changes, widened
from godwit.api.plan_versions import PlanVersions
from godwit.api.replacing import Replacing
from godwit.api.tables import load_table
from godwit.control.checks import check_sink
from godwit.control.commands import (
    AdvancePlan,
    Alter,
    AlterStream,
    ChangeTopology,
    Command,
    Connect,
    Declare,
    LoadTable,
    MigrateKeys,
    PlaceByHand,
    Replace,
    Replan,
    Submit,
    Withdraw,
)
from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    PlacedByHand,
    QuerySubmitted,
    QueryWithdrawn,
    StreamDeclared,
)
from godwit.errors import ConfigError, DeploymentError, SourceError, SqlError
from godwit.ids import DeviceId, QueryId, SiteId, StreamId
from godwit.model.changes import DeviceAdded, DeviceMoved, DeviceRemoved
from godwit.model.instances import InstanceId
from godwit.model.plan import ARRIVED, Column, Query, Stream
from godwit.model.scattering import scattered
from godwit.model.taps import producer
from godwit.model.topology import Device
from godwit.replan.probing import probing
from godwit.replan.wishes import PlanWish
from godwit.sql import compile_query
from godwit.sql.parameters import assigned, assignments


class Operations:
    """The commands of one fleet."""

    def __init__(self, fleet: FleetCore, admission: AdmissionController) -> None:
        self._fleet, self._admission = fleet, admission
        self.plans = PlanVersions(fleet)
        self.replacing = Replacing(fleet, self.plans)
        self._lulls = Lulls(fleet)
        fleet.control.may_begin = self._lulls.over

    def carry_out(self, command: Command, again: bool) -> None:
        """`again`: an earlier process may have carried it out, wholly or in part; then the rest of it."""
        match command:
            case Declare(stream):
                self._declare(stream)
            case AlterStream(name, add):
                self._widen(StreamId(name), add, again)
            case Connect(device, site, streams):
                names.check("device", device)
                self._connect(DeviceId(device), SiteId(site) if site else None, [StreamId(s) for s in streams])
            case Submit(name, sql, sink, joins):
                names.check("query", name)
                check_sink(name, sink, self._fleet.plane.topology)
                self._submit(QueryId(name), sql, sink, again, joins)
                self._fleet.versions.forget(QueryId(name))
            case Withdraw(name):
                if not again or name in self._fleet.queries:
                    self._withdraw(QueryId(name))
                self._remove_producer(QueryId(name))
            case Alter(name, sql):
                self._alter(QueryId(name), sql, again)
            case Replan(name, order, strategy, run_out, partial, up, down, alone):
                self.plans.change(QueryId(name), PlanWish(order, partial, up, down), strategy, run_out, again, alone)
            case Replace(name, sql):
                self.replacing.replace(QueryId(name), sql, again)
            case AdvancePlan(version):
                self.plans.advance(QueryId(version))
            case ChangeTopology(changes):
                check_changes(changes)
                self._fleet.control.ask(ChangesArrived(changes))
            case PlaceByHand(placement, cause):
                self._place({InstanceId.parse(i): SiteId(s) for i, s in placement.items()}, cause)
            case LoadTable(table, file, whole):
                load_table(self._fleet, table, file, whole)
            case MigrateKeys():
                self._fleet.control.ask_beside(self._lulls.asked(asked_keys(self._fleet, command)))

    def _connect(self, device: DeviceId, site: SiteId | None, streams: Sequence[StreamId]) -> None:
        known = self._fleet.plane.topology.devices.get(device)
        if known is None:
            self._fleet.control.ask(ChangesArrived((DeviceAdded(Device(device, site)),)))
        elif site is not None and known.site != site:
            self._fleet.control.ask(ChangesArrived((DeviceMoved(device, site),)))
        new = [s for s in streams if device not in self._fleet.deployment.feeds.get(s, ())]
        if new:
            self._fleet.control.ask(DeviceFeeds(device, tuple(new)))

    def _submit(
        self, name: QueryId, sql: str, sink: str | None, again: bool = False, joins: str = "materialised"
    ) -> None:
        query = compile_query(sql, self._fleet.deployment.streams, name, (), self._fleet.functions.names)
        known = self._fleet.deployment.queries.get(name)
        if known is not None and known.internal and name not in self._fleet.queries:
            # Withdrawn, but others tap it: it keeps its name among the executions.
            self._submit_version(name, sql, sink, again)
            return
        if known is not None or name in self._fleet.queries:
            runs = self._fleet.execution(name)
            if again and runs.sql == query.sql:
                if query.target is not None:
                    self._derive(query, self._fleet.analyst.output(query))
                if any(part not in self._fleet.deployment.queries for part in runs.parts):
                    # An earlier process began to share, and ended before what is shared was there: begin again.
                    self._withdraw(name)
                    self._submit(name, sql, sink)
                return
            msg = f"there is a query '{name}' already; stop it first or choose another name"
            raise DeploymentError(msg)
        self._check_arrival(query)
        candidates = self._admission.orders(query)
        if joins != "materialised":
            candidates = [self._probing(query, joins)]
        columns = self._fleet.analyst.output(query)
        admitted = self._admission.admit(candidates, self._fleet.control.command)
        for part, stream in admitted.parts:
            self._declare(stream)
            self._connect(producer(part.id), admitted.outlet, [stream.id])
        pinned = sink or (self._fleet.plane.planner.default_root() if query.target else None)
        self._deploy(self._scattered(admitted.reader, pinned), columns, pinned, admitted)
        for part, _ in admitted.parts:  # after their reader: it is to see all that they make
            self._cut(part, admitted)
        self._admission.settle(admitted)

    def _check_arrival(self, query: Query) -> None:
        derived = {known.target for known in self._fleet.deployment.queries.values()}
        for _, scan in query.shape.plan.scans:
            if scan.arrival and scan.stream in derived:
                msg = f"'{scan.stream}' is derived: its rows come from a query, and none of them arrives"
                remedy = f"read {ARRIVED} from a stream of devices, or window by the time column of '{scan.stream}'"
                raise SqlError(msg, place=query.sql, remedy=remedy)

    def _probing(self, query: Query, joins: str) -> Query:
        if joins != "stateless":
            msg = f"joins are 'materialised' or 'stateless', not '{joins}'"
            raise ConfigError(msg)
        return probing(query, self._fleet.deployment.streams)

    def _cut(self, part: Query, admitted: Let) -> None:
        """Let a running query feed the stream of what it shares with a reader."""
        assert admitted.outlet is not None
        self._fleet.control.ask(QuerySubmitted(part, admitted.outlet))

    def _scattered(self, query: Query, sink: str | None) -> Query:
        """Where nobody asked for a place, results leave wherever they are made, unless the way to one is what counts:
        admission plans it, or links are emulated."""
        counts = sink is not None or self._admission.on or self._fleet.has_links
        return query if counts else scattered(query)

    def _deploy(self, query: Query, columns: tuple[Column, ...], sink: str | None, let: Let) -> None:
        """Place a query that was let in, and start it."""
        hints, ways = ({hint: v for hint, v in table.items() if hint[0] == query.id} for table in (let.hints, let.ways))
        self._fleet.control.ask(QuerySubmitted(query, SiteId(sink) if sink else None, hints, ways))  # type: ignore[arg-type]
        if query.target is not None:
            self._derive(query, columns)

    def _withdraw(self, query: QueryId) -> None:
        runs = self._fleet.execution(self._fleet.known(query))
        if self._fleet.versions.of(query):
            self._fleet.versions.add(query, runs.id)
        ended = self._fleet.aliases.leave(query, self._fleet.deployment)
        self._fleet.undeploy(ended.id)
        self._admission.leave(ended)

    def _remove_producer(self, name: QueryId) -> None:
        """The device through which an INSERT INTO query fed its stream goes with the query."""
        device = producer(name)
        if name not in self._fleet.deployment.queries and device in self._fleet.plane.topology.devices:
            self._fleet.control.ask(ChangesArrived((DeviceRemoved(device),)))

    def _alter(self, name: QueryId, sql: str, again: bool) -> None:
        """In one epoch the query ends and a new version of it begins, with the new parameters, under the same name.

        What the old version had begun with the old parameters (open windows, pairs to come) ends with it. Where
        admission decides what fits, the old version must be gone before: then it takes two epochs.
        """
        version, sink = QueryId(f"{name}~{self._fleet.control.command}"), None
        if name in self._fleet.queries or not again:
            old = self._fleet.execution(self._fleet.known(name))
            if again and old.id == version:
                return
            sql = self._whole(name, old, sql)
            new = compile_query(sql, self._fleet.deployment.streams, version, (), self._fleet.functions.names)
            if old.shape.key != new.shape.key:
                msg = f"'{name}' cannot be altered to another shape: {_difference(old, new)}; replace it instead"
                raise DeploymentError(msg)
            self._fleet.analyst.output(new)
            if new.identity == old.identity:
                return  # nothing changes
            sink = self._fleet.plane.planner.sink_of(old.id)
            self._fleet.versions.add(name, old.id)
            if self._admission.on or old.parts or old.target is not None:
                self._withdraw(name)
            else:
                self._replace(name, new, sink)
        self._submit_version(name, sql, sink, True)

    def _whole(self, name: QueryId, old: Query, sql: str) -> str:
        """`SET threshold = 7` is the query as it is, with another literal there."""
        values = assignments(sql)
        if values is None:
            return sql
        if self._admission.on or old.parts or old.target is not None:
            # The old version is gone before the new one begins: after a crash in between its text would not be known.
            msg = f"'{name}' is replaced in two steps (it is shared, or admission decides): give its whole text"
            raise DeploymentError(msg)
        return assigned(old.sql, values)

    def _submit_version(self, name: QueryId, sql: str, sink: str | None, again: bool) -> None:
        """Run a query under a name of its own, which users know by the other."""
        version = QueryId(f"{name}~{self._fleet.control.command}")
        self._submit(version, sql, sink, again)
        self._fleet.aliases.succeed(name, version)

    def _replace(self, name: QueryId, new: Query, sink: SiteId | None) -> None:
        """One epoch: the execution of a name ends, another begins."""
        new = self._scattered(self._admission.tapping(new), sink)
        ended = self._fleet.aliases.leave(name, self._fleet.deployment)
        self._fleet.control.ask(QueryWithdrawn(ended.id), QuerySubmitted(new, sink))
        self._admission.leave(ended)

    def _place(self, placement: Mapping[InstanceId, SiteId], cause: str) -> None:
        for instance, site in placement.items():
            known = self._fleet.deployment.queries.get(instance.query)
            if known is None or instance not in self._fleet.deployment.placement:
                msg = f"there is no instance '{instance}' to place; `godwit explain` shows the operators of a query"
                raise DeploymentError(msg)
            if site not in self._fleet.deployment.sites:
                msg = f"'{instance}' cannot be placed on '{site}': there is no such site; add it first"
                raise DeploymentError(msg)
            if known.scattered and instance.operator == len(known.shape.plan.operators) - 1:
                msg = (
                    f"'{instance}' cannot be placed: results of '{instance.query}' leave wherever its rows are. "
                    "To have them leave at one place, withdraw the query and submit it with sink='SITE'"
                )
                raise DeploymentError(msg)
            if known.target and instance.operator == len(known.shape.plan.operators) - 1:
                msg = f"'{instance.query}' feeds stream '{known.target}': its sink is pinned. Move its other operators"
                raise DeploymentError(msg)
        self._fleet.control.ask(PlacedByHand(placement, cause))

    def _derive(self, query: Query, columns: tuple[Column, ...]) -> None:
        """The results of an INSERT become rows of a stream."""
        assert query.target is not None
        sink = query.shape.plan.sink
        if sink.time is None:
            msg = f"'{query.target}' would have no event time"
            raise SqlError(msg, place=query.sql, remedy="select a time column, e.g. window.end")
        if query.target not in self._fleet.deployment.streams:
            named = tuple(Column(given, c.type) for given, c in zip(query.output, columns, strict=True))
            self._declare(Stream(query.target, named, query.output[sink.columns.index(sink.time)]))
        place = self._fleet.deployment.placement.get(InstanceId(query.id, len(query.shape.plan.operators) - 1))
        self._connect(producer(query.id), SiteId(place) if place else None, [query.target])

    def _declare(self, stream: Stream) -> None:
        known = self._fleet.deployment.streams.get(stream.id)
        if known is not None and not known.is_declared_by(stream):
            msg = f"stream '{stream.id}' is declared already, and differently; choose another name"
            raise SourceError(msg)
        if known is None:
            self.prepare(stream)
            self._fleet.control.ask(StreamDeclared(stream))

    def _widen(self, name: StreamId, add: str, again: bool) -> None:
        """Columns more: queries that run do not notice, those that begin from now on may read them."""
        known = self._fleet.deployment.streams.get(name)
        if known is None:
            self._fleet.schema(name)  # (says which there are)
            return
        new = widened(known, add, derived=any(q.target == name for q in self._fleet.deployment.queries.values()))
        if new is None:
            if not again:
                msg = f"stream '{name}' has {add} already"
                raise SourceError(msg)
            return
        schema = self._fleet.analyst.declare(new)
        with self._fleet.lock:
            self._fleet.gateway.widen(schema)
        self._fleet.control.ask(StreamDeclared(new))

    def prepare(self, stream: Stream) -> None:
        """Take rows of a stream, with what earlier processes left in its logs."""
        schema = self._fleet.analyst.declare(stream)
        with self._fleet.lock:
            self._fleet.gateway.declare(schema, self._fleet.deployment)


def _difference(old: Query, new: Query) -> str:
    """Where two plans part ways, for people."""
    before, after = old.shape.plan.operators, new.shape.plan.operators
    for was, now in zip(before, after, strict=False):
        if was != now:
            return f"{was.describe()}{was.detail} became {now.describe()}{now.detail}"
    return f"{len(before)} operators became {len(after)}" if len(before) != len(after) else "other types of parameters"
