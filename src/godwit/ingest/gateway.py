"""The gateway: rows from devices go into the source log of the region each is attached to, with the device's clock.

A device that turns up in another region begins a new session there; the old one is over once its last row is in the
old region's log, and the entry that says so follows that row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from godwit.errors import ElsewhereError, NotAttachedError, SourceError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.rates import Meter
from godwit.ingest.schema import Conformed, Rows, Schema, micros
from godwit.ingest.source_log import DeadLetters, SourceLog, UnknownColumns, came_late, newest_by_device
from godwit.ingest.source_state import SourceState, StreamState, remembered, sender_device
from godwit.ingest.table_book import TableBook
from godwit.model.deployment import Delta, Deployment
from godwit.protocol.span import span
from godwit.protocol.watermarks import NEVER, Mark
from godwit.storage.log import Segment
from godwit.storage.store import Store

#: (device, its greatest event time in microseconds, its number of rows)
Newest: TypeAlias = list[tuple[DeviceId, int, int]]


class Gateway:
    """Appends to source logs. One a fleet; callers hold the fleet's lock, but not for `conform`."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time, only: RegionId | None = None) -> None:
        """`only`: the one region whose logs this process writes; None: all."""
        self.store, self._only = store, only
        #: the wall clock (seconds), for rows that lie too far ahead of it
        self.now = now
        self.dead, self.meter = DeadLetters(store, only), Meter()
        self.tables, self._unknown = TableBook(store), UnknownColumns(store, only)
        self._schemas: dict[StreamId, Schema] = {}
        self._streams: dict[StreamId, StreamState] = {}
        self._logs: dict[tuple[RegionId, StreamId], SourceLog] = {}
        #: the time of arrival (seconds) of the newest entry; none is earlier than one before it
        self._arrived = self._rows_arrived = 0.0
        #: (epoch, the streams of which queries want to know what came too late)
        self._late_read: tuple[int, frozenset[StreamId]] = (-1, frozenset())
        #: whether a device is known to be attached, or out of reach, though no epoch says so; None: the epoch does
        self.attached: Callable[[DeviceId], bool | None] = lambda device: None
        #: epochs that are published, and of which a full disk has not taken all that follows
        self._behind: list[tuple[Delta, Deployment, Deployment]] = []
        #: notified of every entry, for readers of the region's logs
        self.appended: Callable[[RegionId, StreamId], None] = lambda region, stream: None
        #: told when a stream may have come further: tables follow
        self.advanced: Callable[[], object] = lambda: None

    def declare(self, schema: Schema, deployment: Deployment) -> None:
        """Take a stream in, with what earlier runs left in its logs."""
        self._schemas[schema.stream.id] = schema
        known = set(deployment.sites.values()) | set(deployment.stays.values())
        regions = known if self._only is None else {self._only}
        self._streams[schema.stream.id] = remembered(self.store, regions, schema.stream.id, deployment.knows)
        self._arrived = self._rows_arrived = max(self._arrived, self._streams[schema.stream.id].entered)
        if schema.stream.key:
            self.tables.open(schema)

    def widen(self, schema: Schema) -> None:
        """A stream has columns more from now on."""
        stream = schema.stream.id
        self._schemas[stream] = schema
        for log in (log for (_, name), log in self._logs.items() if name == stream):
            log.schema = schema

    def schema(self, stream: StreamId) -> Schema:
        if stream not in self._schemas:
            msg = f"there is no stream '{stream}'; declare it with fleet.stream(...). Known: {sorted(self._schemas)}"
            raise SourceError(msg)
        return self._schemas[stream]

    def now_us(self) -> int:
        return int(self.now() * 1e6)

    def source(self, stream: StreamId, device: DeviceId) -> SourceState:
        return self._streams[stream].devices.setdefault(device, SourceState())

    def sequence(self, stream: StreamId, sender: str) -> int:
        """The last sequence number that came through: of a device, or of "feeder|device"."""
        return self._streams[stream].sequences.get(sender, 0)

    def remember(self, stream: StreamId, sender: str, sequence: int) -> None:
        self._streams[stream].sequences[sender] = sequence

    def fed(self, stream: StreamId, feeder: str) -> int:
        """The last sequence number of which anything came through from a feeder."""
        numbers = self._streams[stream].sequences.items()
        return max((n for sender, n in numbers if sender.startswith(f"{feeder}|")), default=0)

    def starts(self, regions: Iterable[RegionId], streams: Iterable[StreamId]) -> dict[str, int]:
        """Where the source logs of streams stand: "region/stream" -> number."""
        return {f"{r}/{s}": self.log(r, s).log.last for s in self._schemas.keys() & set(streams) for r in regions}

    def log(self, region: RegionId, stream: StreamId) -> SourceLog:
        key = (region, stream)
        if key not in self._logs:
            self._logs[key] = SourceLog(self.store, region, self.schema(stream), self.meter, self._arrives)
            self._logs[key].appended = lambda: self._noticed(region, stream)
        return self._logs[key]

    def _arrives(self, rows: bool) -> float:
        """When what comes in now (rows, or marks alone) arrives: the wall clock, but never back."""
        self._arrived = max(self._arrived, self.now())
        if rows:
            self._rows_arrived = self._arrived
        return self._arrived

    def tell_arrival(self, stream: StreamId, deployment: Deployment) -> None:
        """Every device of a stream says that it is still there, also one that is away: whatever it sends arrives later
        than this."""
        marks: dict[RegionId, dict[DeviceId, Mark]] = {}
        for device in deployment.feeds.get(stream, ()):
            source = self._streams[stream].devices.setdefault(
                device, SourceState(session=deployment.sessions.get(device, 1), region=deployment.stays.get(device))
            )
            if source.region is not None and source.left is None and self._is_mine(source.region):
                marks.setdefault(source.region, {})[device] = source.mark
        for region, told in marks.items():
            self.log(region, stream).append(_nothing(self.schema(stream)), told, {}, {})

    def _noticed(self, region: RegionId, stream: StreamId) -> None:
        self.appended(region, stream)
        if not self._schemas[stream].stream.key:
            self.advanced()

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
        self, stream: StreamId, rows: Conformed, deployment: Deployment, device: DeviceId | None, sequence: int | None
    ) -> bool:
        """Rows of one device, or of many told apart by the device column. False: this sequence number is known."""
        if self.schema(stream).stream.key:
            msg = f"'{stream}' is a reference table; change it with fleet.table(..).upsert(rows) or .delete(keys)"
            raise SourceError(msg)
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
        self._streams[stream].sequences.update(numbers)

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

    def change_table(self, stream: StreamId, rows: pa.Table, deployment: Deployment) -> None:
        """Versions of a table's rows: written down, then told to its readers."""
        self.tables.add(stream, rows)
        self._tell_versions(stream, deployment)

    def _tell_versions(self, stream: StreamId, deployment: Deployment) -> None:
        """Changes that are not in the log yet; an earlier process may have died before they were."""
        device = DeviceId(stream)
        for number, rows in self.tables.after(stream, self.sequence(stream, device)):
            self._append_versions(stream, rows, deployment, {str(device): number})
            self.remember(stream, device, number)

    def _append_versions(
        self, stream: StreamId, rows: pa.Table, deployment: Deployment, sequence: dict[str, int]
    ) -> None:
        device, schema = DeviceId(stream), self.schema(stream)
        region, source = self._home(device, schema, deployment), self.source(stream, device)
        clock = max(source.clock, self.table_times(stream)[1])
        source.advance(deployment.sessions.get(device, 1), region, clock, clock)
        self.log(region, stream).append(rows, {device: source.mark}, {str(device): rows.num_rows}, sequence)

    def table_times(self, stream: StreamId) -> tuple[int, int]:
        """(from when on a change holds that is made now, the earliest from when on one may): just after the newest row
        of any stream, and the table's disorder before that. NEVER: there were no rows yet."""
        states = [state for name, state in self._streams.items() if not self._schemas[name].stream.key]
        newest = [state.newest for state in states]
        newest += [source.newest for state in states for source in state.devices.values()]
        frontier, told = max(newest, default=NEVER), self.source(stream, DeviceId(stream)).clock
        if frontier == NEVER:
            return told, told
        disorder = self.schema(stream).stream.disorder_us
        return max(frontier + 1, told), max(frontier + 1 - disorder, told)

    def table_clock(self, stream: StreamId, deployment: Deployment) -> dict[DeviceId, int]:
        """How far a table has come, if that is further than it has said; nothing of one that is closed or away."""
        device, source = DeviceId(stream), self.source(stream, DeviceId(stream))
        clock = self.table_times(stream)[1]
        there = self._region(device, deployment) is not None and not source.mark.closed
        return {device: clock} if there and clock > source.clock else {}

    def repeat_tables(self, streams: Iterable[StreamId], deployment: Deployment) -> None:
        """A query that begins now is told all versions there are; the others know them."""
        for stream in set(streams) & self._streams.keys():
            schema = self.schema(stream)
            if schema.stream.key and self._region(DeviceId(stream), deployment) is not None:
                self._tell_versions(stream, deployment)
                rows = self.tables.versions(schema)
                if rows.num_rows:
                    self._append_versions(stream, rows, deployment, {})

    def tell(self, stream: StreamId, clocks: Mapping[DeviceId, int], deployment: Deployment) -> None:
        """Devices say how far they have come (microseconds) though they have no rows: nothing older will follow."""
        self.catch_up()
        schema = self.schema(stream)
        marks: dict[RegionId, dict[DeviceId, Mark]] = {}
        for device, clock in clocks.items():
            region, source = self._home(device, schema, deployment), self.source(stream, device)
            source.advance(deployment.sessions.get(device, 1), region, clock, clock)
            marks.setdefault(region, {})[device] = source.mark
        for region, told in marks.items():
            self.log(region, stream).append(_nothing(schema), told, {}, {})

    def check_clocks(self, stream: StreamId, clocks: Mapping[DeviceId, int]) -> None:
        """Refuse a clock that lies where no row may: all later rows of the device would be late."""
        bounds = self.schema(stream).times(self.now_us())
        for device, clock in clocks.items():
            for reason in (why for first, end, why in bounds if first <= clock < end):
                msg = f"device '{device}' cannot advance its clock of '{stream}' to {clock}: {reason}"
                raise SourceError(msg)

    def homes(
        self, stream: StreamId, devices: Iterable[DeviceId], deployment: Deployment
    ) -> dict[RegionId | None, list[DeviceId]]:
        """Where the rows of devices belong that a feeder sends for them: where each is, or was last; or None."""
        found: dict[RegionId | None, list[DeviceId]] = {}
        for device in devices:
            region = self._region(device, deployment)
            if region is None and device in self._streams[stream].devices:
                region = self.source(stream, device).region
            found.setdefault(region, []).append(device)
        return found

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
        self._streams[stream].sequences.update(numbers)

    def adopt(self, delta: Delta, before: Deployment, after: Deployment) -> None:
        """An epoch is published. Devices that have moved end their sessions where they were; those that are gone send
        nothing more. Queries that begin know both."""
        fed: set[DeviceId] = set()
        for stream, devices in delta.feeds.items():
            fed |= set(devices).difference(before.feeds.get(stream, ()))
        self.follow([*delta.devices, *sorted(fed.difference(delta.devices))], after)
        for device in sorted(delta.gone):
            self.leave(device, before)
        self.forget(delta.forgotten)
        begun = [query for query in delta.queries.values() if query is not None]
        read = {s.stream for query in begun for _, s in query.shape.plan.scans}
        self.repeat_ends(read, after)
        self.repeat_tables(read, after)

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

    def follow(self, devices: Iterable[DeviceId], deployment: Deployment) -> None:
        """Devices may have changed region: end their old sessions where they were, begin the new ones.

        A session has ended when its log says so: if that cannot be written, it is tried again with the same epoch.
        """
        over: dict[tuple[RegionId, StreamId], dict[DeviceId, Mark]] = {}
        began: dict[tuple[RegionId, StreamId], dict[DeviceId, Mark]] = {}
        ending: dict[tuple[RegionId, StreamId], list[tuple[SourceState, int, RegionId]]] = {}
        for device in devices:
            # One that is away is where it was last: there its session will end.
            region, session = deployment.stays.get(device), deployment.sessions.get(device, 1)
            for stream, state in self._streams.items():
                if device not in deployment.feeds.get(stream, ()) or region is None or device.startswith("query:"):
                    continue  # (a query that feeds a derived stream ends its sessions itself: derive.py)
                source = state.devices.setdefault(device, SourceState(session=session, region=region))
                if session < source.session:
                    continue  # an epoch that is followed again after a restart
                if source.left is not None:
                    source.begin(session, region)
                elif source.region is not None and session > source.session:
                    end = replace(source.mark, over=True, following=session)
                    over.setdefault((source.region, stream), {})[device] = end
                    source.turn %= 2
                    if source.turn:  # it is closed, also where it is now
                        began.setdefault((region, stream), {})[device] = replace(source.mark, session=session)
                    ending.setdefault((source.region, stream), []).append((source, session, region))
                    continue
                source.session, source.region = session, region
        # (what begins first: to say that twice does no harm)
        for place, marks in (*began.items(), *over.items()):
            if self._is_mine(place[0]):
                # One entry for all that leave: each would wake the region up.
                self.log(*place).append(_nothing(self.schema(place[1])), marks, {}, {})
            for source, session, region in ending.get(place, ()) if marks is over.get(place) else ():
                source.session, source.region = session, region

    def leave(self, device: DeviceId, deployment: Deployment) -> None:
        """The device is gone: its session is over, and none follows. `deployment`: one that knows where it was."""
        for stream, source in self._of(device, deployment):
            if source.left is None and source.region is not None and self._is_mine(source.region):
                source.session = max(source.session, deployment.sessions.get(device, 1))
                self._say(stream, replace(source.mark, over=True), source.region, device)
                source.left = self.log(source.region, stream).log.last

    def left_at(self, device: DeviceId) -> dict[tuple[RegionId, StreamId], int]:
        """For a device that has left: the entries that say so; who has read them has read all that it sent."""
        found = {}
        for stream, state in self._streams.items():
            source = state.devices.get(device)
            if source is not None and source.left is not None and source.region is not None:
                found[source.region, stream] = source.left
        return found

    def forget(self, devices: Collection[DeviceId]) -> None:
        """All that these devices have sent was read."""
        self.meter.forget(devices)
        for state in self._streams.values():
            for device in devices:
                state.forget(device)

    def close(self, device: DeviceId, deployment: Deployment, end: int | None = None) -> None:
        """Nothing more comes from the device, unless it begins again by sending. `end`: a time behind every window, if
        other processes have rows, too."""
        self.catch_up()
        end = self.end(deployment) if end is None else end
        by_arrival = [q for q in deployment.queries.values() if any(scan.arrival for _, scan in q.shape.plan.scans)]
        if by_arrival:  # windows close though their time has not come; what arrives later belongs to later ones
            self._arrived = max(self._arrived, self._rows_arrived + (span(by_arrival) + 1) / 1e6)
        for stream, source in self._of(device, deployment):
            if not source.mark.closed and self._is_mine(source.region):
                source.close(end)
                self._say(stream, source.mark, source.region, device)

    def reset_clock(self, device: DeviceId, deployment: Deployment) -> None:
        """What the device sends from now on counts again, though its clock was ahead: it was wrong."""
        for stream, source in self._of(device, deployment):
            source.begin_again()
            self._say(stream, source.mark, source.region, device)

    def repeat_ends(self, streams: Iterable[StreamId], deployment: Deployment) -> None:
        """A query that begins now reads logs from now on: publish to it, too, which devices will send nothing more."""
        for stream in set(streams) & self._streams.keys():
            ends: dict[RegionId, dict[DeviceId, Mark]] = {}
            for device, source in self._streams[stream].devices.items():
                ended = source.mark.closed or source.left is not None
                if ended and source.region is not None and self._is_mine(source.region):
                    end = replace(source.mark, over=source.left is not None)
                    ends.setdefault(source.region, {})[device] = end
            for region, marks in ends.items():
                entry = self.log(region, stream).append(_nothing(self.schema(stream)), marks, {}, {})
                for device in [device for device, end in marks.items() if end.left]:
                    self._streams[stream].devices[device].left = entry

    def _of(self, device: DeviceId, deployment: Deployment) -> Iterator[tuple[StreamId, SourceState]]:
        """The streams that a device feeds, and what is known of it there."""
        for stream, state in self._streams.items():
            if device in deployment.feeds.get(stream, ()):
                source = state.devices.setdefault(device, SourceState(session=deployment.sessions.get(device, 1)))
                source.region = source.region or deployment.stays.get(device)
                yield stream, source

    def _say(self, stream: StreamId, mark: Mark, region: RegionId | None, device: DeviceId) -> None:
        if region is not None and self._is_mine(region):  # (one that was never attached holds no window open)
            self.log(region, stream).append(_nothing(self.schema(stream)), {device: mark}, {}, {})

    def end(self, deployment: Deployment) -> int:
        """A time behind every window that rows so far can be in: once all sources are closed, all of them close."""
        states = self._streams.values()
        newest = [state.newest for state in states]
        newest += [source.newest for state in states for source in state.devices.values()]
        disorder = max((schema.stream.disorder_us for schema in self._schemas.values()), default=0)
        return max(newest, default=NEVER) + disorder + span(deployment.queries.values()) + 1

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
            return [(self._home(whole, schema, deployment), table, [(whole, newest_us, table.num_rows)])]
        homes: dict[RegionId, Newest] = {}
        for known in newest_by_device(table, stream.time, stream.device):
            homes.setdefault(self._home(known[0], schema, deployment), []).append(known)
        if len(homes) == 1:
            return [(region, table, newest) for region, newest in homes.items()]
        names = table.column(stream.device).cast(pa.string())
        return [
            (region, table.filter(pc.is_in(names, pa.array([name for name, _, _ in those]))), those)
            for region, those in homes.items()
        ]

    def _home(self, device: DeviceId, schema: Schema, deployment: Deployment) -> RegionId:
        region, attached = self._region(device, deployment), self.attached(device)
        if attached is False:
            region = None
        elif region is None and attached:
            # Its session is where it was last, until the epoch that moves it is published: rows go there meanwhile.
            region = deployment.stays.get(device)
        if region is None:
            known = "is not attached to any site" if device in deployment.devices else "is not declared"
            msg = f"device '{device}' {known}, so '{schema.stream.id}' cannot take its rows; attach it, or buffer them"
            raise NotAttachedError(msg)
        if not self._is_mine(region):
            msg = f"device '{device}' is attached in region '{region}', not here; push its rows there"
            raise ElsewhereError(msg, region)
        return region

    def writes(self, regions: Iterable[RegionId]) -> set[RegionId]:
        """Those of the regions whose logs this process writes."""
        return {region for region in regions if self._is_mine(region)}

    def _is_mine(self, region: RegionId | None) -> bool:
        return self._only is None or region == self._only

    @staticmethod
    def _region(device: DeviceId, deployment: Deployment) -> RegionId | None:
        site = deployment.devices.get(device)
        return None if site is None else deployment.sites.get(site)

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


def _nothing(schema: Schema) -> pa.Table:
    return schema.arrow.empty_table()
