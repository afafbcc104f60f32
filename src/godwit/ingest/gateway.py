"""The gateway: rows from devices go into the source log of the region each is attached to, with the device's clock.

source_logs.py      the logs, and what is known of every device
sessions.py         where sessions of devices begin and end
table_versions.py   changes of reference tables
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import SourceError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.batches import MeanwhileError
from godwit.ingest.rows import Rows
from godwit.ingest.schema import Conformed, Schema, micros
from godwit.ingest.sessions import Sessions
from godwit.ingest.source_log import DeadLetters, UnknownColumns, came_late, newest_by_device
from godwit.ingest.source_logs import SourceLogs, nothing
from godwit.ingest.source_state import sender_device
from godwit.ingest.table_versions import TableVersions
from godwit.model.deployment import Delta, Deployment
from godwit.protocol.watermarks import NEVER, Mark
from godwit.storage.log import Segment
from godwit.storage.store import Store

#: (device, its greatest event time in microseconds, its number of rows)
Newest: TypeAlias = list[tuple[DeviceId, int, int]]


class Gateway(SourceLogs):
    """Takes rows, clocks and epochs in. One per fleet; callers hold the fleet's lock, but not for `conform`."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time, only: RegionId | None = None) -> None:
        """`only`: the one region whose logs this process writes; None: all."""
        super().__init__(store, now, only)
        self.dead, self._unknown = DeadLetters(store, only), UnknownColumns(store, only)
        self.sessions, self.tables = Sessions(self), TableVersions(self)
        #: (epoch, the streams of which queries want to know what came too late)
        self._late_read: tuple[int, frozenset[StreamId]] = (-1, frozenset())
        #: epochs that are published, and of which a full disk has not taken all that follows
        self._behind: list[tuple[Delta, Deployment, Deployment]] = []

    def conform(self, stream: StreamId, rows: Rows, device: DeviceId | None) -> Conformed:
        """Rows as the stream has them, and what does not fit. Needs no lock."""
        if isinstance(rows, Conformed):
            return rows
        return self.schema(stream).conform(rows, device, self.now_us())

    def said_of(self, stream: StreamId, unknown: Iterable[str]) -> dict[str, str]:
        """What to say of columns that a stream has not."""
        return {name: self.schema(stream).said_of(name) for name in islice(unknown, UnknownColumns.MOST)}

    def is_known(self, stream: StreamId, device: DeviceId | None, sequence: int | None) -> bool:
        """Whether a sender's sequence number has come through before."""
        self.schema(stream)
        if sequence is None:
            return False
        if device is None:
            msg = f"sequence {sequence} for '{stream}' needs a sender; push through a device's handle"
            raise SourceError(msg)
        return sequence <= self.sequence(stream, device)

    def push(
        self,
        stream: StreamId,
        rows: Conformed,
        deployment: Deployment,
        device: DeviceId | None,
        sequence: int | None,
        after: int | None = None,
    ) -> bool:
        """Rows of one device, or of many told apart by the device column. False: this sequence number is known.
        `after`: the last number that may be known; MeanwhileError if it is another."""
        if self.schema(stream).stream.key:
            msg = f"'{stream}' is a reference table; change it with fleet.table(..).upsert(rows) or .delete(keys)"
            raise SourceError(msg)
        if after is not None and after != self.sequence(stream, str(device)):
            msg = f"rows of '{device}' behind sequence number {after} have come through meanwhile"
            raise MeanwhileError(msg)
        if self.is_known(stream, device, sequence):
            return False
        self.push_numbered(stream, rows, deployment, device, {} if sequence is None else {str(device): sequence})
        return True

    def push_numbered(
        self,
        stream: StreamId,
        rows: Conformed,
        deployment: Deployment,
        device: DeviceId | None,
        numbers: Mapping[str, int],
    ) -> None:
        """The same for rows of several senders; `numbers`: the sequence numbers that they end with, by sender."""
        self.catch_up()
        schema = self.schema(stream)
        parts = self._by_region(schema, rows.table, deployment, device)  # or an error, and nothing is taken
        if rows.dead:
            self.dead.add(stream, rows.dead)
        if rows.unknown:
            self._unknown.add(stream, self.said_of(stream, rows.unknown))
        left = dict(numbers)
        for region, table, newest in parts:
            here = {str(name) for name, _, _ in newest}
            mine = {sender: left.pop(sender) for sender in [s for s in left if sender_device(s) in here]}
            late = {}
            if self._reads_late(stream, deployment):
                late = self._late(schema, table, None if device is not None else schema.stream.device, newest)
            marks, counts = self._progress(schema, region, newest, deployment)
            self.log(region, stream).append(table, marks, counts, mine, late)
        self.streams[stream].sequences.update(numbers)

    def _reads_late(self, stream: StreamId, deployment: Deployment) -> bool:
        """Whether a query wants to know what comes too late."""
        if self._late_read[0] != deployment.epoch:
            scans = (scan for query in deployment.queries.values() for _, scan in query.shape.plan.scans)
            self._late_read = deployment.epoch, frozenset(scan.stream for scan in scans if scan.late)
        return stream in self._late_read[1]

    def _late(self, schema: Schema, table: pa.Table, device: str | None, newest: Newest) -> dict[str, int]:
        """Whose rows come too late. `device`: the column that says whose they are; None: they are one device's."""
        known = ((str(name), self.source(schema.stream.id, name)) for name, _, _ in newest)
        promised = {n: s.clock for n, s in known if s.clock > NEVER and not s.mark.closed and s.left is None}
        return came_late(table, schema.stream.time, device, promised)

    def tell(self, stream: StreamId, clocks: Mapping[DeviceId, int], deployment: Deployment) -> None:
        """Devices say how far they have come (microseconds) though they have no rows: nothing older will follow."""
        self.catch_up()
        schema = self.schema(stream)
        marks: dict[RegionId, dict[DeviceId, Mark]] = {}
        for device, clock in clocks.items():
            region, source = self.home(device, schema, deployment), self.source(stream, device)
            source.advance(deployment.sessions.get(device, 1), region, clock, clock)
            marks.setdefault(region, {})[device] = source.mark
        for region, told in marks.items():
            self.log(region, stream).append(nothing(schema), told, {}, {})

    def check_clocks(self, stream: StreamId, clocks: Mapping[DeviceId, int]) -> None:
        """Refuse a clock that lies where no row may: all later rows of the device would be late."""
        bounds = self.schema(stream).times(self.now_us())
        for device, clock in clocks.items():
            for reason in (why for first, end, why in bounds if first <= clock < end):
                msg = f"device '{device}' cannot advance its clock of '{stream}' to {clock}: {reason}"
                raise SourceError(msg)

    def feed(
        self,
        stream: StreamId,
        region: RegionId,
        segment: Segment,
        newest: Newest,
        deployment: Deployment,
        feeder: str,
        sequence: int,
    ) -> None:
        """Files that a feeder has staged, or found, become an entry of the region's log as they are."""
        schema, late = self.schema(stream), {}
        if self._reads_late(stream, deployment):
            time, device = schema.stream.time, schema.stream.device
            tables = segment.tables([time, *([] if device is None else [device])], keep=False)
            late = self._late(schema, pa.concat_tables(tables), device, newest)
        marks, rows = self._progress(schema, region, newest, deployment)
        numbers = {f"{feeder}|{device}": sequence for device, _, _ in newest}
        at_us = max(newest_us for _, newest_us, _ in newest)
        self.log(region, stream).append_files(segment, marks, rows, at_us, numbers, late)
        self.streams[stream].sequences.update(numbers)

    def adopt(self, delta: Delta, before: Deployment, after: Deployment) -> None:
        """An epoch is published. Devices that have moved end their sessions where they were; those that are gone send
        nothing more. Queries that begin know both."""
        fed: set[DeviceId] = set()
        for stream, devices in delta.feeds.items():
            fed |= set(devices).difference(before.feeds.get(stream, ()))
        self.sessions.follow([*delta.devices, *sorted(fed.difference(delta.devices))], after)
        for device in sorted(delta.gone):
            self.sessions.leave(device, before)
        self.forget(delta.forgotten)
        begun = [query for query in delta.queries.values() if query is not None]
        read = {s.stream for query in begun for _, s in query.shape.plan.scans}
        self.sessions.repeat_ends(read, after)
        self.tables.repeat(read, after)

    def adopt_published(self, delta: Delta, before: Deployment, after: Deployment) -> OSError | None:
        """The same of an epoch that stands: what the disk does not take now is written with the next try."""
        self._behind.append((delta, before, after))
        try:
            self.catch_up()
        except OSError as fault:
            return fault
        return None

    def catch_up(self) -> None:
        """Before anything else is taken in: rows of a next session must not count for the one before. OSError: the
        disk is full still."""
        while self._behind:
            self.adopt(*self._behind[0])
            del self._behind[0]

    def close(self, device: DeviceId, deployment: Deployment, end: int | None = None) -> None:
        """Nothing more comes from the device, unless it begins again by sending; see `Sessions.close`."""
        self.catch_up()
        self.sessions.close(device, deployment, end)

    def _by_region(
        self, schema: Schema, table: pa.Table, deployment: Deployment, device: DeviceId | None
    ) -> list[tuple[RegionId, pa.Table, Newest]]:
        """The rows of each region, with how far its devices have come."""
        stream = schema.stream
        if table.num_rows == 0:
            return []
        if device is not None or stream.device is None:
            whole = device or DeviceId(stream.id)
            newest_us = pc.max(micros(table.column(stream.time))).as_py()
            return [(self.home(whole, schema, deployment), table, [(whole, newest_us, table.num_rows)])]
        homes: dict[RegionId, Newest] = {}
        for known in newest_by_device(table, stream.time, stream.device):
            homes.setdefault(self.home(known[0], schema, deployment), []).append(known)
        if len(homes) == 1:
            return [(region, table, newest) for region, newest in homes.items()]
        names = table.column(stream.device).cast(pa.string())
        return [
            (region, table.filter(pc.is_in(names, pa.array([name for name, _, _ in those]))), those)
            for region, those in homes.items()
        ]

    def _progress(
        self, schema: Schema, region: RegionId, newest: Newest, deployment: Deployment
    ) -> tuple[dict[DeviceId, Mark], dict[str, int]]:
        """How far each device has come with its newest rows, and how many they are."""
        marks, rows = {}, {}
        for name, newest_us, count in newest:
            source = self.source(schema.stream.id, name)
            clock = newest_us - schema.stream.disorder_us
            source.advance(deployment.sessions.get(name, 1), region, clock, newest_us)
            marks[name], rows[str(name)] = source.mark, count
        return marks, rows
