"""Changes of reference tables: written to the book, then sent to the queries that read them, as rows of a source."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from godwit.ids import DeviceId, StreamId
from godwit.ingest.source_logs import SourceLogs
from godwit.model.deployment import Deployment
from godwit.protocol.watermarks import NEVER


class TableVersions:
    """One per gateway. Not thread-safe: hold the fleet's lock."""

    def __init__(self, sources: SourceLogs) -> None:
        self._sources, self.book = sources, sources.book

    def change(self, stream: StreamId, rows: pa.Table, deployment: Deployment) -> None:
        """Versions of a table's rows: written down, then told to its readers."""
        self.book.add(stream, rows)
        self._tell_versions(stream, deployment)

    def _tell_versions(self, stream: StreamId, deployment: Deployment) -> None:
        """Changes that are not in the log yet; an earlier process may have died before they were."""
        device = DeviceId(stream)
        for number, rows in self.book.after(stream, self._sources.sequence(stream, device)):
            self._append_versions(stream, rows, deployment, {str(device): number})
            self._sources.remember(stream, device, number)

    def _append_versions(
        self, stream: StreamId, rows: pa.Table, deployment: Deployment, sequence: dict[str, int]
    ) -> None:
        device, schema = DeviceId(stream), self._sources.schema(stream)
        region, source = self._sources.home(device, schema, deployment), self._sources.source(stream, device)
        clock = max(source.clock, self.times(stream)[1])
        source.advance(deployment.sessions.get(device, 1), region, clock, clock)
        self._sources.log(region, stream).append(rows, {device: source.mark}, {str(device): rows.num_rows}, sequence)

    def times(self, stream: StreamId) -> tuple[int, int]:
        """(from when on a change holds that is made now, the earliest from when on one may): just after the newest row
        of any stream, and the table's disorder before that. NEVER: there were no rows yet."""
        states = [state for name, state in self._sources.streams.items() if not self._sources.schemas[name].stream.key]
        newest = [state.newest for state in states]
        newest += [source.newest for state in states for source in state.devices.values()]
        frontier, told = max(newest, default=NEVER), self._sources.source(stream, DeviceId(stream)).clock
        if frontier == NEVER:
            return told, told
        disorder = self._sources.schema(stream).stream.disorder_us
        return max(frontier + 1, told), max(frontier + 1 - disorder, told)

    def clock(self, stream: StreamId, deployment: Deployment) -> dict[DeviceId, int]:
        """How far a table has come, if that is further than it has said; nothing of one that is closed or away."""
        device, source = DeviceId(stream), self._sources.source(stream, DeviceId(stream))
        clock = self.times(stream)[1]
        there = self._sources.region_of(device, deployment) is not None and not source.mark.closed
        return {device: clock} if there and clock > source.clock else {}

    def repeat(self, streams: Iterable[StreamId], deployment: Deployment) -> None:
        """A query that begins now is told all versions there are; the others know them."""
        for stream in set(streams) & self._sources.streams.keys():
            schema = self._sources.schema(stream)
            if schema.stream.key and self._sources.region_of(DeviceId(stream), deployment) is not None:
                self._tell_versions(stream, deployment)
                rows = self.book.versions(schema)
                if rows.num_rows:
                    self._append_versions(stream, rows, deployment, {})
