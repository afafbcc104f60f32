"""A region's logs on disk, as the kernel's poller reads them (`godwit.protocol.inputs`: what, and in which order).

Records become typed values here; nothing is decided. Where a record's JSON says more than the protocol needs, the
record goes along.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace

from godwit.engine.arrival import arrived
from godwit.ids import Epoch, RegionId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import Scan, Shape
from godwit.protocol import inputs
from godwit.protocol.handover import EpochChange
from godwit.protocol.inputs import CONTROL, PeerCommit, SourceEntry, scan_log
from godwit.protocol.outbox import message_from_json
from godwit.protocol.watermarks import Mark
from godwit.region.epochs import EpochReader
from godwit.region.link_delays import EPOCHS, LinkDelays
from godwit.region.parted import parted
from godwit.region.plan_lines import line_drawn
from godwit.storage.log import Log, Record, Segment
from godwit.storage.names import outbox_log, regions_of, source_log
from godwit.storage.store import Store

#: how often a server is asked which regions run a shape (seconds): who is new says so (`expect_peer`)
ASK_EVERY = 1.0
#: input of an operator -> rows of its state
Parts = dict[int, list[Segment]]


#: state that another region hands over
Arrived = inputs.Arrived[Segment]
#: the input of one micro-batch
Work = inputs.Inputs[Segment]


#: the newest entries of source logs, by their records
_entries: OrderedDict[int, tuple[Record, SourceEntry[Segment]]] = OrderedDict()
MOST_ENTRIES = 64


def _source_entry(record: Record, store: Store) -> SourceEntry[Segment]:
    marks = {device: Mark.from_json(mark) for device, mark in record["marks"].items()}
    rows = None if record["segment"] is None else Segment.from_json(record["segment"], store)
    size = (0, 0) if rows is None else (rows.rows, rows.bytes)
    return SourceEntry(marks, rows, record["rows"], *size, record["entered"], record["newest_us"])


class Reader:
    """The logs that one (region, shape) listens to."""

    def __init__(
        self,
        store: Store,
        region: RegionId,
        shape: Shape,
        epochs: EpochReader | None = None,
        delays: LinkDelays | None = None,
    ) -> None:
        self.store, self.region, self.shape, self._delays = store, region, shape, delays
        self._epochs = epochs or EpochReader(store)
        self.control = self._epochs.control
        self._sources = {
            scan_log(index, scan): store.log(source_log(region, scan.stream)) for index, scan in shape.plan.scans
        }
        self._peers: dict[RegionId, Log] = {}
        #: the column that says whose a stream's rows are
        self.device_column: Callable[[StreamId], str | None] = lambda stream: None
        #: as they were found, and until when that counts: a time or, where no other process writes, as the store counts
        self._found, self._found_until, self._births, self._looks = list[RegionId](), 0.0, -1, 0

    def peers(self) -> list[RegionId]:
        """The other regions that run, or ever ran, this shape."""
        births, now = self.store.births, time.monotonic()
        if births == self._births if self.store.alone else now < self._found_until:
            return self._found
        self._births, self._looks = births, self._looks + 1
        if self.store.served is None or self._found_until == 0.0:
            self._look_for_peers(self._looks)
            self._found_until = 0.0 if self.store.served is None else time.monotonic() + ASK_EVERY
        else:  # a server that may be far away is asked beside
            self._found_until = now + ASK_EVERY
            threading.Thread(target=self._look_beside, args=(self._looks,), daemon=True).start()
        return self._found

    def _look_for_peers(self, look: int) -> None:
        there = [r for r in regions_of(self.store.disk, self.shape.key) if r != self.region]
        if look == self._looks:  # (else somebody has looked since)
            self._found = there

    def _look_beside(self, look: int) -> None:
        with contextlib.suppress(OSError):  # (the next one will say so)
            self._look_for_peers(look)

    def expect_peer(self, region: RegionId) -> None:
        """A region says that it has a message for this one."""
        if region not in self._found:
            self._found_until = 0.0

    def messages(self, peer: RegionId, after: int | None) -> Iterator[tuple[int, PeerCommit[Segment]]]:
        log = self._peer(peer)
        for number, record in log.after(log.first - 1 if after is None else after):
            if not self._sees(peer, number):
                return
            yield number, message_from_json(record, self.region, self._rows)

    def _sees(self, peer: RegionId, number: int) -> bool:
        return self._delays is None or self._delays.sees(peer, self.region, self.shape.key, number)

    def _hears(self, epoch: int) -> bool:
        """Whether the control plane's word of an epoch has come."""
        return self._delays is None or self._delays.sees(self._delays.links.hub, self.region, EPOCHS, epoch)

    def _rows(self, told: Record) -> tuple[Segment, int, int]:
        rows = Segment.from_json(told, self.store)
        return rows, rows.rows, rows.bytes

    def epochs(self, after: int, deployment: Deployment, needed: Epoch) -> Iterator[tuple[int, EpochChange]]:
        unheard: list[tuple[int, EpochChange]] = []
        for number, change in self._epochs.after(after, deployment):
            unheard.append((number, change))
            # An epoch that draws a line in the source logs must not be heard of after what lies behind the line.
            line = any(move.leaves for move in change.moves)
            if number <= needed or line or self._hears(number):
                yield from unheard
                unheard = []

    def start(self, epoch: int, source: str) -> int:
        region, _, stream = source.partition("/")
        drawn = line_drawn(self.store, region, stream, epoch)
        return self.control.start(epoch - 1, source) if drawn is None else drawn

    def entries(self, index: int, scan: Scan, after: int | None) -> Iterator[tuple[int, SourceEntry[Segment]]]:
        log = self._sources[scan_log(index, scan)]
        for number, record in log.after(log.first - 1 if after is None else after):
            entry = self._entry(record)
            if entry.rows is not None and scan.arrival:
                rows = arrived(entry.rows, record["entered"], record.get("late", {}) if scan.late else None)
                count, size = (0, 0) if rows is None else (rows.rows, rows.bytes)
                entry = replace(entry, rows=rows, count=count, bytes=size)
            yield number, entry

    def _entry(self, record: Record) -> SourceEntry[Segment]:
        """Made once for all shapes that read a log: those in this process are given the same record."""
        found = _entries.get(id(record))
        if found is None or found[0] is not record:
            found = _entries[id(record)] = record, _source_entry(record, self.store)
            while len(_entries) > MOST_ENTRIES:
                with contextlib.suppress(KeyError):
                    _entries.popitem(last=False)
        return found[1]

    def part(self, scan: Scan, rows: Segment, device: str) -> tuple[Segment | None, Segment | None]:
        return parted(rows, self.device_column(scan.stream), device)

    def grown(self, log: str, after: int | None) -> bool:
        if log == CONTROL:
            return self.control.exists((after or 0) + 1) and self._hears((after or 0) + 1)
        peer = RegionId(log.partition(":")[2])
        known = self._sources.get(log) or self._peer(peer)
        number = (known.first - 1 if after is None else after) + 1
        return known.exists(number) and (log in self._sources or self._sees(peer, number))

    def oldest(self) -> tuple[int, Deployment]:
        return self.control.oldest()

    def _peer(self, region: RegionId) -> Log:
        if region not in self._peers:
            self._peers[region] = self.store.log(outbox_log(region, self.shape.key, self.region))
        return self._peers[region]
