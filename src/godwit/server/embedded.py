"""A fleet whose regions run in this process, as the routes see it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from godwit.api.fleet import Fleet
from godwit.api.migrating import asked_keys, explain_keys
from godwit.api.tables import TableHandle
from godwit.control.commands import Answer, ChangeTopology, Command, MigrateKeys, Replan
from godwit.delivery.json_rows import json_rows, plain
from godwit.errors import DeploymentError
from godwit.ids import DeviceId, QueryId, RegionId, SiteId, StreamId
from godwit.ingest.together import Parcel, push_together
from godwit.model.deployment import Deployment
from godwit.model.instances import InstanceId
from godwit.model.plan import Column, Query, Stream
from godwit.model.topology import Topology
from godwit.observe.before_after import moved
from godwit.observe.rollup import results_of
from godwit.observe.status import Status
from godwit.region.runner import Runner
from godwit.server.backend import Backend, CommandProgress, Committed, Told
from godwit.storage.epoch_log import Control
from godwit.storage.log import Record, Segment


class EmbeddedBackend(Backend):
    kind = "embedded"

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    # --- what is there

    @property
    def deployment(self) -> Deployment:
        return self.fleet.deployment

    @property
    def topology(self) -> Topology:
        return self.fleet.topology.now

    @property
    def queries(self) -> list[QueryId]:
        return self.fleet.queries

    @property
    def functions(self) -> Collection[str]:
        return self.fleet.functions.names

    def execution(self, query: QueryId) -> Query:
        return self.fleet.execution(query)

    def executions(self, query: QueryId) -> list[Query]:
        fleet, newest = self.fleet, self.fleet.execution(query)
        earlier = fleet.versions.of(query) if newest.shape.plan.sink.key is None else ()
        known = (fleet.aliases.execution(name, fleet.deployment) for name in earlier if name != newest.id)
        return [*(one for one in known if one is not None), newest]

    def segments(self, shape: str) -> Mapping[RegionId, Sequence[Segment]]:
        return self.fleet.pool.results_by_region(shape)

    def output(self, query: Query) -> tuple[Column, ...]:
        return self.fleet.analyst.output(query)

    def explain(self, query: QueryId) -> str:
        return self.fleet.query(query).explain()

    # --- commands

    def execute(self, command: Command) -> tuple[int, int]:
        if isinstance(command, Replan):  # (plans are made before it begins)
            self.fleet.replan(
                command.query,
                order=command.order,
                partial=command.partial,
                filters_up=command.up,
                filters_down=command.down,
                strategy=command.strategy,
                run_out=command.run_out,
                alone=command.alone,
            )
            return self.fleet.control.last, int(self.fleet.deployment.epoch)
        return self.fleet.control.execute(command), int(self.fleet.deployment.epoch)

    def post(self, command: Command) -> int:
        return self.fleet.control.post(command)

    def answer_of(self, number: int) -> Answer | None:
        return self.fleet.control.answer_of(number)

    def known_command(self, number: int) -> bool:
        return self.fleet.control.known(number)

    def stream(self, name: str, schema: str, **options: Any) -> Stream:
        return self.fleet.stream(name, schema, **options)

    def table(self, name: str, schema: str, *, key: Sequence[str], disorder: str | None, site: str | None) -> Stream:
        self.fleet.table(name, schema, key=key, disorder=disorder, site=site)
        return self.deployment.streams[StreamId(name)]

    # --- dry runs

    def explain_command(self, command: ChangeTopology | MigrateKeys) -> str:
        if isinstance(command, ChangeTopology):
            return self.fleet.explain_change(command.changes)
        with self.fleet.control.driving():
            return explain_keys(self.fleet, asked_keys(self.fleet, command))

    # --- rows

    def push(self, parcel: Parcel) -> bool:
        gateway, device = self.fleet.gateway, parcel.device
        if gateway.is_known(parcel.stream, device, parcel.sequence):
            return False
        fits = gateway.conform(parcel.stream, parcel.rows, device)
        taken = self.fleet.push(parcel.stream, fits, device=device, sequence=parcel.sequence)
        if taken:
            parcel.told(fits, gateway)
        return taken

    def push_together(self, parcels: Sequence[Parcel]) -> list[bool | None]:
        return push_together(self.fleet, parcels)

    def is_known(self, stream: StreamId, device: DeviceId, sequence: int) -> bool:
        return self.fleet.gateway.is_known(stream, device, sequence)

    def unread(self, stream: str) -> int:
        return self.fleet.unread(stream)

    def tell_time(self, stream: str, clocks: Mapping[DeviceId, int]) -> None:
        self.fleet.tell_time(stream, clocks)

    def close_sources(self) -> None:
        self.fleet.close_sources()

    def close_device(self, device: DeviceId) -> None:
        self.fleet.close_device(device)

    def reset_clock(self, device: DeviceId) -> None:
        self.fleet.reset_clock(device)

    def notify_handover(self, device: str, site: str) -> None:
        self.fleet.notify_handover(device, site)

    def dead_letters(self) -> list[dict[str, Any]]:
        return [plain(one) for one in self.fleet.dead_letters()]

    def change_table(self, table: str, rows: Any, since: dt.datetime | None, how: str) -> int:
        return int(getattr(self._table(table), how)(rows, since))

    def table_rows(self, table: str) -> list[dict[str, Any]]:
        return [plain(row) for row in self._table(table).rows()]

    def _table(self, name: str) -> TableHandle:
        return TableHandle(self.fleet, self.deployment.streams[StreamId(name)])

    # --- looks

    def status(self) -> Status:
        return self.fleet.status()

    def waits(self, query: QueryId) -> list[str]:
        return self.fleet.metrics.waits(self.fleet.execution(query))

    def history(self) -> list[dict[str, Any]]:
        return self.fleet.history.read()

    def moved(self, epochs: Sequence[int]) -> list[dict[str, Any]] | None:
        return moved(Control(self.fleet.store), epochs)

    def progress(self) -> CommandProgress:
        control, plane = self.fleet.control, self.fleet.plane
        regions = {str(region): int(epoch) for region, epoch in sorted(self.fleet.pool.acknowledged.items())}
        return CommandProgress(
            control.last, control.waiting(), int(plane.epoch), int(plane.coordinator.stable), regions
        )

    def check(self) -> None:
        self.fleet.check()
        if not self.fleet.pool.running:
            msg = "the fleet is not started"
            raise DeploymentError(msg)

    def hints(self) -> tuple[Mapping[QueryId, str], Mapping[InstanceId, str]]:
        planner = self.fleet.plane.planner
        sinks: dict[QueryId, SiteId] = {}
        for query in self.deployment.queries:
            if (sink := planner.sink_of(query)) is not None:
                sinks[query] = sink
        return sinks, dict(planner.ground.by_hand)

    def late(self, query: QueryId, limit: int) -> list[dict[str, Any]]:
        return json_rows(self.fleet.query(query).late().limit(limit).toArrow())

    def verdict(self, query: QueryId) -> dict[str, Any]:
        found = self.fleet.query(query).verdict()
        return {**asdict(found), "equal": found.equal}

    def process_available(self) -> None:
        self.fleet.process_available()

    def follow(self, committed: Committed, told: Told, listened: Callable[[], bool]) -> None:
        def publish(runner: Runner, number: int, record: Record) -> None:
            if record["results"] and listened():
                committed(runner.region, runner.shape.key, results_of(record, runner.store))

        self.fleet.pool.follow(publish)
        self.fleet.history.follow(told)
