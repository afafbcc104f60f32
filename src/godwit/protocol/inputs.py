"""What one micro-batch takes in, and in which order it is read: new epochs, rows, state that arrives, marks.

`InputPoller.poll` looks at the logs and decides; it changes nothing. What the logs are, the region's files or the
simulator's lists, it does not know: `InputLogs` is all it needs. The rows themselves are the engine's (`R`).

Order matters. Other regions' messages are read before the control log, so that none is taken in that was made under
an epoch this region has not heard of; sources are read last, so that rows of a device that has just come are not routed
by an epoch that did not know it, where that can be helped.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import EPOCH, Scan, Shape
from godwit.protocol.handover import EpochChange, Migration
from godwit.protocol.watermarks import Mark, source_id

R = TypeVar("R")
#: (operator, source, what it says)
Heard = tuple[int, str, Mark]

CONTROL = "control"


def peer_log(region: RegionId) -> str:
    return f"peer:{region}"


def scan_log(index: int, scan: Scan) -> str:
    return f"source:{index}:{scan.stream}"


@dataclass(frozen=True)
class Arrived(Generic[R]):
    """State that another region hands over."""

    move: Migration
    #: input of the operator -> rows of its state
    parts: dict[int, list[R]]
    #: how far the sender had released the query's watermark
    clock: int
    #: (scan, source) -> its sessions before this one are over, as the sender knows: a region that has just begun to
    #: read does not, if the word of it went round before
    sessions: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sent(Generic[R]):
    """Rows that a region sends to an operator in another."""

    to: RegionId
    operator: int
    input: int
    rows: R
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class PeerCommit(Generic[R]):
    """A message of another region: one of its commits, as far as it concerns the receiver (`outbox.py`)."""

    epoch: Epoch
    markers: Mapping[int, Epoch]
    marks: Sequence[Heard]
    sent: Sequence[Sent[R]] = ()
    #: hand-overs, whatever the engine needs to fetch the state with each
    handovers: Sequence[tuple[Migration, Any]] = ()
    entered: float | None = None
    newest_us: int | None = None
    #: what only the engine understands
    record: Any = None
    #: queries that the peer had to stop: query -> (epoch, reason)
    failed: Mapping[QueryId, tuple[int, str]] = field(default_factory=dict)
    #: of the commit that made it
    number: int = 0
    #: moves to the peer whose state it waits for now
    wanted: Sequence[Migration] = ()


@dataclass(frozen=True)
class SourceEntry(Generic[R]):
    """An entry of a source log: rows of some devices, and how far each has come."""

    #: device -> its mark
    marks: Mapping[str, Mark]
    rows: R | None
    #: rows of each device
    counts: Mapping[str, int] = field(default_factory=dict)
    count: int = 0
    bytes: int = 0
    entered: float | None = None
    newest_us: int | None = None


@dataclass
class Inputs(Generic[R]):
    """The input of one micro-batch."""

    changes: list[EpochChange] = field(default_factory=list)
    #: scan -> rows of its stream
    sources: dict[int, list[R]] = field(default_factory=dict)
    #: (operator, input) -> rows from other regions, with the epoch they were sent under
    channels: dict[tuple[int, int], list[tuple[R, Epoch]]] = field(default_factory=dict)
    #: hand-overs that others announce, and state that is here
    parcels: list[Any] = field(default_factory=list)
    arrived: list[Arrived[R]] = field(default_factory=list)
    marks: list[Heard] = field(default_factory=list)
    #: marks of sources that are attached here: published to the others at first hand
    own_marks: list[Heard] = field(default_factory=list)
    markers: list[tuple[RegionId, Mapping[int, Epoch]]] = field(default_factory=list)
    #: the other regions whose messages can be read
    peers: tuple[RegionId, ...] = ()
    #: queries that other regions had to stop
    failed: dict[QueryId, tuple[int, str]] = field(default_factory=dict)
    #: moves from here whose state others ask for
    wanted: list[Migration] = field(default_factory=list)
    #: what came with other regions' messages for the engine alone
    told: list[tuple[RegionId, Any]] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    #: rows of each device, by stream: "stream/device" -> rows
    by_source: dict[str, int] = field(default_factory=dict)
    #: when the newest of these rows entered the fleet (wall clock, seconds), and its newest event time
    entered: float | None = None
    newest_us: int | None = None

    def take_commit(self, here: RegionId, peer: RegionId, commit: PeerCommit[R]) -> None:
        self.markers.append((peer, commit.markers))
        self.marks += commit.marks
        for sent in commit.sent:
            if sent.to == here:
                self.channels.setdefault((sent.operator, sent.input), []).append((sent.rows, commit.epoch))
                self._count(sent.count, sent.bytes, commit.entered, commit.newest_us)
        self.parcels += [parcel for move, parcel in commit.handovers if move.target == here]
        self.failed.update(commit.failed)
        self.wanted += commit.wanted
        self.told.append((peer, commit.record))

    def take_entry(self, index: int, scan: Scan, entry: SourceEntry[R]) -> None:
        heard = [(index, source_id(scan.stream, device), mark) for device, mark in entry.marks.items()]
        self.marks += heard
        self.own_marks += heard
        if entry.rows is None:
            return
        self.sources.setdefault(index, []).append(entry.rows)
        self._count(entry.count, entry.bytes, entry.entered, entry.newest_us)
        for device, count in entry.counts.items():
            source = source_id(scan.stream, device)
            self.by_source[source] = self.by_source.get(source, 0) + count

    def _count(self, rows: int, size: int, entered: float | None, newest_us: int | None) -> None:
        self.rows += rows
        self.bytes += size
        if entered is not None:
            self.entered = max(self.entered or 0.0, entered)
        if newest_us is not None:
            self.newest_us = newest_us if self.newest_us is None else max(self.newest_us, newest_us)


class InputLogs(Protocol[R]):
    """The logs that one (region, shape) reads. `after` is a number, or None: whatever is kept."""

    def peers(self) -> Sequence[RegionId]:
        """The other regions that run, or ever ran, the shape."""

    def messages(self, peer: RegionId, after: int | None) -> Iterable[tuple[int, PeerCommit[R]]]:
        """A peer's messages to this region, in order."""

    def epochs(self, after: int, deployment: Deployment, needed: Epoch) -> Iterable[tuple[int, EpochChange]]:
        """Epochs past a number, whose deployment is given; at least up to the `needed` one."""

    def start(self, epoch: int, source: str) -> int:
        """Where a source log ("region/stream") stood when an epoch, or the first after it that needs the log, came."""

    def entries(self, index: int, scan: Scan, after: int | None) -> Iterable[tuple[int, SourceEntry[R]]]:
        """A source log's entries, in order."""

    def end(self, index: int, scan: Scan) -> int:
        """The number of a source log's newest entry."""

    def grown(self, log: str, after: int | None) -> bool:
        """Whether there is a record past a number, without reading it."""

    def oldest(self) -> tuple[int, Deployment]:
        """The first epoch that is still known whole."""


class InputPoller(Generic[R]):
    """Reads everything one (region, shape) listens to, in the order that keeps it exact."""

    def __init__(self, region: RegionId, shape: Shape, logs: InputLogs[R], max_rows: float = math.inf) -> None:
        self.region, self.shape, self.logs, self.max_rows = region, shape, logs, max_rows

    def poll(
        self,
        positions: Mapping[str, int],
        deployment: Deployment,
        fenced: Collection[RegionId],
        into: Inputs[R],
        sources: bool = True,
    ) -> None:
        """Everything new since `positions`, up to about `max_rows` rows; without `sources`, only what others sent."""
        into.positions = dict(positions)
        into.peers = tuple(peer for peer in self.logs.peers() if peer not in fenced)
        needed = deployment.epoch
        for peer in into.peers:
            needed = max(needed, self._take_peer(into, peer))
        ends = self._ends_of_parts()
        self._take_epochs(into, deployment, needed)
        scans = self.shape.plan.scans if sources else ()
        share = max(self.max_rows - into.rows, 0) / max(len(scans), 1)
        for index, scan in scans:
            # Each scan its share: a backlog on one side of a join must not starve the other.
            self._take_source(into, index, scan, into.rows + share, ends.get(index, math.inf))

    def waiting(self, positions: Mapping[str, int], fenced: Collection[RegionId]) -> bool:
        """Whether anything new is there, without reading it."""
        peers = (peer_log(peer) for peer in self.logs.peers() if peer not in fenced)
        names = [CONTROL, *peers, *(scan_log(i, scan) for i, scan in self.shape.plan.scans)]
        return any(self.logs.grown(name, positions.get(name)) for name in names)

    def _ends_of_parts(self) -> dict[int, int]:
        """How far shared parts may be read: not past what was there before the control log was looked at, or a reader
        that has just begun could miss what was made for it."""
        return {i: self.logs.end(i, scan) for i, scan in self.shape.plan.scans if EPOCH in scan.columns}

    def _take_peer(self, into: Inputs[R], peer: RegionId) -> Epoch:
        name, newest = peer_log(peer), Epoch(0)
        for number, commit in self.logs.messages(peer, into.positions.get(name)):
            if into.rows >= self.max_rows:
                break
            into.positions[name] = number
            into.take_commit(self.region, peer, commit)
            newest = max(newest, commit.epoch)
        return newest

    def _take_epochs(self, into: Inputs[R], deployment: Deployment, needed: Epoch) -> None:
        for number, change in self.logs.epochs(into.positions[CONTROL], deployment, needed):
            into.positions[CONTROL] = number
            into.changes.append(change)

    def _take_source(self, into: Inputs[R], index: int, scan: Scan, until: float, end: float) -> None:
        name = scan_log(index, scan)
        for number, entry in self.logs.entries(index, scan, into.positions.get(name)):
            if into.rows >= until or number > end:
                return
            into.positions[name] = number
            into.take_entry(index, scan, entry)
