"""Sessions of devices: where each begins and ends, as marks in the source logs.

A device that turns up in another region begins a new session there; the old one is over once its last row is in the
old region's log, and the entry that says so follows that row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.source_logs import SourceLogs, nothing
from godwit.ingest.source_state import SourceState
from godwit.model.deployment import Deployment
from godwit.protocol.span import span
from godwit.protocol.watermarks import NEVER, Mark


class Sessions:
    """One per gateway. Not thread-safe: hold the fleet's lock."""

    def __init__(self, sources: SourceLogs) -> None:
        self._sources = sources

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
            for stream, state in self._sources.streams.items():
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
            if self._sources.is_mine(place[0]):
                # One entry for all that leave: each would wake the region up.
                self._sources.log(*place).append(nothing(self._sources.schema(place[1])), marks, {}, {})
            for source, session, region in ending.get(place, ()) if marks is over.get(place) else ():
                source.session, source.region = session, region

    def leave(self, device: DeviceId, deployment: Deployment) -> None:
        """The device is gone: its session is over, and none follows. `deployment`: one that knows where it was."""
        for stream, source in self._sources.of_device(device, deployment):
            if source.left is None and source.region is not None and self._sources.is_mine(source.region):
                source.session = max(source.session, deployment.sessions.get(device, 1))
                self._sources.append_mark(stream, replace(source.mark, over=True), source.region, device)
                source.left = self._sources.log(source.region, stream).log.last

    def left_at(self, device: DeviceId) -> dict[tuple[RegionId, StreamId], int]:
        """For a device that has left: the entries that say so; who has read them has read all that it sent."""
        found = {}
        for stream, state in self._sources.streams.items():
            source = state.devices.get(device)
            if source is not None and source.left is not None and source.region is not None:
                found[source.region, stream] = source.left
        return found

    def close(self, device: DeviceId, deployment: Deployment, end: int | None = None) -> None:
        """Nothing more comes from the device, unless it begins again by sending. `end`: a time behind every window, if
        other processes have rows, too."""
        end = self.end(deployment) if end is None else end
        by_arrival = [q for q in deployment.queries.values() if any(scan.arrival for _, scan in q.shape.plan.scans)]
        if by_arrival:  # windows close though their time has not come; what arrives later belongs to later ones
            self._sources.advance_arrival((span(by_arrival) + 1) / 1e6)
        for stream, source in self._sources.of_device(device, deployment):
            if not source.mark.closed and self._sources.is_mine(source.region):
                source.close(end)
                self._sources.append_mark(stream, source.mark, source.region, device)

    def reset_clock(self, device: DeviceId, deployment: Deployment) -> None:
        """What the device sends from now on counts again, though its clock was ahead: it was wrong."""
        for stream, source in self._sources.of_device(device, deployment):
            source.begin_again()
            self._sources.append_mark(stream, source.mark, source.region, device)

    def repeat_ends(self, streams: Iterable[StreamId], deployment: Deployment) -> None:
        """A query that begins now reads logs from now on: publish to it, too, which devices will send nothing more."""
        for stream in set(streams) & self._sources.streams.keys():
            ends: dict[RegionId, dict[DeviceId, Mark]] = {}
            for device, source in self._sources.streams[stream].devices.items():
                ended = source.mark.closed or source.left is not None
                if ended and source.region is not None and self._sources.is_mine(source.region):
                    end = replace(source.mark, over=source.left is not None)
                    ends.setdefault(source.region, {})[device] = end
            for region, marks in ends.items():
                entry = self._sources.log(region, stream).append(nothing(self._sources.schema(stream)), marks, {}, {})
                for device in [device for device, end in marks.items() if end.left]:
                    self._sources.streams[stream].devices[device].left = entry

    def end(self, deployment: Deployment) -> int:
        """A time behind every window that rows so far can be in: once all sources are closed, all of them close."""
        states = self._sources.streams.values()
        newest = [state.newest for state in states]
        newest += [source.newest for state in states for source in state.devices.values()]
        disorder = max((schema.stream.disorder_us for schema in self._sources.schemas.values()), default=0)
        return max(newest, default=NEVER) + disorder + span(deployment.queries.values()) + 1
