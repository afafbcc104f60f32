"""The source logs that this process writes, and what is known of the devices whose rows are in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator

import pyarrow as pa

from godwit.errors import ElsewhereError, NotAttachedError, SourceError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.rates import Meter
from godwit.ingest.schema import Schema
from godwit.ingest.source_log import SourceLog
from godwit.ingest.source_state import SourceState, StreamState, remembered
from godwit.ingest.table_book import TableBook
from godwit.model.deployment import Deployment
from godwit.protocol.watermarks import Mark
from godwit.storage.store import Store


class SourceLogs:
    """One per fleet, or per region that is a process. Not thread-safe: hold the fleet's lock."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time, only: RegionId | None = None) -> None:
        """`only`: the one region whose logs this process writes; None: all."""
        self.store, self._only = store, only
        #: the wall clock (seconds), for rows that lie too far ahead of it
        self.now = now
        self.meter, self.book = Meter(), TableBook(store)
        self.schemas: dict[StreamId, Schema] = {}
        self.streams: dict[StreamId, StreamState] = {}
        self._logs: dict[tuple[RegionId, StreamId], SourceLog] = {}
        #: the time of arrival (seconds) of the newest entry; none is earlier than one before it
        self._arrived = self._rows_arrived = 0.0
        #: whether a device is known to be attached, or out of reach, though no epoch says so; None: the epoch does
        self.attached: Callable[[DeviceId], bool | None] = lambda device: None
        #: notified of every entry, for readers of the region's logs
        self.appended: Callable[[RegionId, StreamId], None] = lambda region, stream: None
        #: notified when a stream may have advanced: tables follow
        self.advanced: Callable[[], object] = lambda: None

    def declare(self, schema: Schema, deployment: Deployment) -> None:
        """Take a stream in, with what earlier runs left in its logs."""
        self.schemas[schema.stream.id] = schema
        known = set(deployment.sites.values()) | set(deployment.stays.values())
        regions = known if self._only is None else {self._only}
        self.streams[schema.stream.id] = remembered(self.store, regions, schema.stream.id, deployment.knows)
        self._arrived = self._rows_arrived = max(self._arrived, self.streams[schema.stream.id].entered)
        if schema.stream.key:
            self.book.open(schema)

    def widen(self, schema: Schema) -> None:
        """A stream has columns more from now on."""
        stream = schema.stream.id
        self.schemas[stream] = schema
        for log in (log for (_, name), log in self._logs.items() if name == stream):
            log.schema = schema

    def schema(self, stream: StreamId) -> Schema:
        if stream not in self.schemas:
            msg = f"there is no stream '{stream}'; declare it with fleet.stream(...). Known: {sorted(self.schemas)}"
            raise SourceError(msg)
        return self.schemas[stream]

    def now_us(self) -> int:
        return int(self.now() * 1e6)

    def source(self, stream: StreamId, device: DeviceId) -> SourceState:
        return self.streams[stream].devices.setdefault(device, SourceState())

    def sequence(self, stream: StreamId, sender: str) -> int:
        """The last sequence number that came through: of a device, or of "feeder|device"."""
        return self.streams[stream].sequences.get(sender, 0)

    def remember(self, stream: StreamId, sender: str, sequence: int) -> None:
        self.streams[stream].sequences[sender] = sequence

    def fed(self, stream: StreamId, feeder: str) -> int:
        """The last sequence number of which anything came through from a feeder."""
        numbers = self.streams[stream].sequences.items()
        return max((n for sender, n in numbers if sender.startswith(f"{feeder}|")), default=0)

    def starts(self, regions: Iterable[RegionId], streams: Iterable[StreamId]) -> dict[str, int]:
        """Where the source logs of streams stand: "region/stream" -> number."""
        return {f"{r}/{s}": self.log(r, s).log.last for s in self.schemas.keys() & set(streams) for r in regions}

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

    def advance_arrival(self, seconds: float) -> None:
        """What arrives from now on arrives at least so long after the newest rows."""
        self._arrived = max(self._arrived, self._rows_arrived + seconds)

    def _noticed(self, region: RegionId, stream: StreamId) -> None:
        self.appended(region, stream)
        if not self.schemas[stream].stream.key:
            self.advanced()

    def tell_arrival(self, stream: StreamId, deployment: Deployment) -> None:
        """Every device of a stream says that it is still there, also one that is away: whatever it sends arrives later
        than this."""
        marks: dict[RegionId, dict[DeviceId, Mark]] = {}
        for device in deployment.feeds.get(stream, ()):
            source = self.streams[stream].devices.setdefault(
                device, SourceState(session=deployment.sessions.get(device, 1), region=deployment.stays.get(device))
            )
            if source.region is not None and source.left is None and self.is_mine(source.region):
                marks.setdefault(source.region, {})[device] = source.mark
        for region, told in marks.items():
            self.log(region, stream).append(nothing(self.schema(stream)), told, {}, {})

    def forget(self, devices: Collection[DeviceId]) -> None:
        """All that these devices have sent was read."""
        self.meter.forget(devices)
        for state in self.streams.values():
            for device in devices:
                state.forget(device)

    def homes(
        self, stream: StreamId, devices: Iterable[DeviceId], deployment: Deployment
    ) -> dict[RegionId | None, list[DeviceId]]:
        """Where the rows of devices belong that a feeder sends for them: where each is, or was last; or None."""
        found: dict[RegionId | None, list[DeviceId]] = {}
        for device in devices:
            region = self.region_of(device, deployment)
            if region is None and device in self.streams[stream].devices:
                region = self.source(stream, device).region
            found.setdefault(region, []).append(device)
        return found

    def of_device(self, device: DeviceId, deployment: Deployment) -> Iterator[tuple[StreamId, SourceState]]:
        """The streams that a device feeds, and what is known of it there."""
        for stream, state in self.streams.items():
            if device in deployment.feeds.get(stream, ()):
                source = state.devices.setdefault(device, SourceState(session=deployment.sessions.get(device, 1)))
                source.region = source.region or deployment.stays.get(device)
                yield stream, source

    def append_mark(self, stream: StreamId, mark: Mark, region: RegionId | None, device: DeviceId) -> None:
        if region is not None and self.is_mine(region):  # (one that was never attached holds no window open)
            self.log(region, stream).append(nothing(self.schema(stream)), {device: mark}, {}, {})

    def home(self, device: DeviceId, schema: Schema, deployment: Deployment) -> RegionId:
        region, attached = self.region_of(device, deployment), self.attached(device)
        if attached is False:
            region = None
        elif region is None and attached:
            # Its session is where it was last, until the epoch that moves it is published: rows go there meanwhile.
            region = deployment.stays.get(device)
        if region is None:
            known = "is not attached to any site" if device in deployment.devices else "is not declared"
            msg = f"device '{device}' {known}, so '{schema.stream.id}' cannot take its rows; attach it, or buffer them"
            raise NotAttachedError(msg)
        if not self.is_mine(region):
            msg = f"device '{device}' is attached in region '{region}', not here; push its rows there"
            raise ElsewhereError(msg, region)
        return region

    def writes(self, regions: Iterable[RegionId]) -> set[RegionId]:
        """Those of the regions whose logs this process writes."""
        return {region for region in regions if self.is_mine(region)}

    def is_mine(self, region: RegionId | None) -> bool:
        return self._only is None or region == self._only

    @staticmethod
    def region_of(device: DeviceId, deployment: Deployment) -> RegionId | None:
        site = deployment.devices.get(device)
        return None if site is None else deployment.sites.get(site)


def nothing(schema: Schema) -> pa.Table:
    """An entry that has marks alone."""
    return schema.arrow.empty_table()
