"""What one micro-batch takes in, and in which order it is read: new epochs, rows, state that arrives, marks.

`InputPoller.poll` looks at the logs and decides; it changes nothing. What the logs are, the region's files or the
simulator's lists, it does not know: `InputLogs` is all it needs. The rows themselves are the engine's (`R`).

Order matters. Other regions' messages and the sources are read before the control log, so that nothing is taken in that
was made, or came in, under an epoch this region has not heard of.

Where one version of a query follows another under another plan, the source logs' ends when its epoch was published are
the *line* between them: a region reads up to it before it adopts the epoch, and no further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from godwit.ids import Epoch, QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Query, Scan, Shape
from godwit.protocol.handover import Answered, EpochChange, Migration
from godwit.protocol.session_order import Session
from godwit.protocol.watermarks import Mark, source_id, split_source

R = TypeVar("R")
#: (operator, source, what it says)
Heard = tuple[int, str, Mark]

CONTROL = "control"
#: (scan, rows, device) -> (the others' rows, the device's)
Part = Callable[[Scan, R, str], tuple[R | None, R | None]]


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
    #: keys whose rows the sender had answered further than its watermark says
    answered: Answered = ()
    #: rows of the receiver that have stood apart until it came, by input
    waited: dict[int, list[R]] = field(default_factory=dict)

    @property
    def everything(self) -> dict[int, list[R]]:
        """What came and what has waited for it, by input."""
        sides = sorted(self.parts.keys() | self.waited.keys())
        return {side: [*self.parts.get(side, []), *self.waited.get(side, [])] for side in sides}


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
    #: of a commit that ends a session: receiver -> the number of its message
    numbers: Mapping[RegionId, int] = field(default_factory=dict)
    #: peer -> its message that is to be taken in before this one
    behind: Mapping[RegionId, int] = field(default_factory=dict)


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
    #: what was read of the sources, and how a device's rows are taken out of it
    entries: list[tuple[int, Scan, SourceEntry[R]]] = field(default_factory=list)
    part: Part[R] | None = None
    #: rows of sessions whose device may have unread rows in one before (`session_order.py`)
    held: dict[Session, list[R]] = field(default_factory=dict)
    #: sessions that have waited and go on now
    let_in: list[Session] = field(default_factory=list)
    #: sinks whose rows have waited for their old region, and leave now
    let_out: list[Migration] = field(default_factory=list)
    #: (peer, marks, numbers) of its commits that end sessions
    ends: list[tuple[RegionId, Sequence[Heard], Mapping[RegionId, int]]] = field(default_factory=list)
    #: peer -> its newest commit that a message came of
    commits: dict[RegionId, int] = field(default_factory=dict)
    #: the other regions whose messages can be read
    peers: tuple[RegionId, ...] = ()
    #: queries that other regions had to stop
    failed: dict[QueryId, tuple[int, str]] = field(default_factory=dict)
    #: moves from here whose state others ask for
    wanted: list[Migration] = field(default_factory=list)
    #: what came with other regions' messages for the engine alone
    told: list[tuple[RegionId, Any]] = field(default_factory=list)
    #: (peer, its message) that another peer's next one comes behind
    behind: list[tuple[RegionId, int]] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    #: whether there may be more than was read: too many rows for one micro-batch, or a line to be reached first
    more: bool = False
    rows: int = 0
    bytes: int = 0
    #: rows of each device, by stream: "stream/device" -> rows
    by_source: dict[str, int] = field(default_factory=dict)
    #: when the newest of these rows entered the fleet (wall clock, seconds), and its newest event time
    entered: float | None = None
    newest_us: int | None = None

    def take_commit(self, here: RegionId, peer: RegionId, commit: PeerCommit[R]) -> None:
        self.commits[peer] = commit.number
        self.markers.append((peer, commit.markers))
        self.marks += commit.marks
        if commit.numbers:
            self.ends.append((peer, commit.marks, commit.numbers))
        for sent in commit.sent:
            if sent.to == here:
                self.channels.setdefault((sent.operator, sent.input), []).append((sent.rows, commit.epoch))
                self._count(sent.count, sent.bytes, commit.entered, commit.newest_us)
        self.parcels += [parcel for move, parcel in commit.handovers if move.target == here]
        self.failed.update(commit.failed)
        self.wanted += commit.wanted
        self.told.append((peer, commit.record))

    def take_entry(self, index: int, scan: Scan, entry: SourceEntry[R]) -> None:
        self.entries.append((index, scan, entry))
        heard = list(_heard(index, scan, entry))
        self.marks += heard
        self.own_marks += heard
        if entry.rows is None:
            return
        self.sources.setdefault(index, []).append(entry.rows)
        self._count(entry.count, entry.bytes, entry.entered, entry.newest_us)
        for device, count in entry.counts.items():
            source = source_id(scan.stream, device)
            self.by_source[source] = self.by_source.get(source, 0) + count

    def hold_back(self, waits: Callable[[int, str, int], bool]) -> list[Heard]:
        """Take rows and marks of sessions that must wait out again; returns the marks."""
        found: list[Heard] = []
        for index, scan, entry in self.entries:
            mine = [one for one in _heard(index, scan, entry) if waits(index, one[1], one[2].session)]
            found += mine
            rows = entry.rows
            for _, source, mark in mine:
                device = split_source(source)[1]
                if rows is None or (entry.counts and device not in entry.counts):
                    continue
                assert self.part is not None
                rest, taken = (None, rows) if entry.counts.keys() == {device} else self.part(scan, rows, device)
                there = self.sources[index]
                at = next(k for k, one in enumerate(there) if one is rows)
                there[at : at + 1] = [] if rest is None else [rest]
                self.held.setdefault((index, source, mark.session), []).extend([] if taken is None else [taken])
                rows = rest
        if found:
            self.sources = {index: rows for index, rows in self.sources.items() if rows}
            self.marks = [one for one in self.marks if one not in found]
            self.own_marks = [one for one in self.own_marks if one not in found]
        return found

    def _count(self, rows: int, size: int, entered: float | None, newest_us: int | None) -> None:
        self.rows += rows
        self.bytes += size
        if entered is not None:
            self.entered = max(self.entered or 0.0, entered)
        if newest_us is not None:
            self.newest_us = newest_us if self.newest_us is None else max(self.newest_us, newest_us)


@dataclass(frozen=True)
class Line:
    """An epoch that may be adopted when the sources are read up to these entries, by scan."""

    epoch: int
    ends: Mapping[int, int]


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

    def part(self, scan: Scan, rows: R, device: str) -> tuple[R | None, R | None]:
        """Rows of a source's entry: (those of other devices, those of one)."""

    def grown(self, log: str, after: int | None) -> bool:
        """Whether there is a record past a number, without reading it."""

    def oldest(self) -> tuple[int, Deployment]:
        """The first epoch that is still known whole."""


class InputPoller(Generic[R]):
    """Reads everything one (region, shape) listens to, in the order that keeps it exact."""

    def __init__(self, region: RegionId, shape: Shape, logs: InputLogs[R], max_rows: float = math.inf) -> None:
        self.region, self.shape, self.logs, self.max_rows = region, shape, logs, max_rows
        #: peer -> (its last message that was taken in, whose message the next one comes behind, and which)
        self._behind: dict[RegionId, tuple[int | None, RegionId, int]] = {}

    def poll(
        self,
        positions: Mapping[str, int],
        deployment: Deployment,
        fenced: Collection[RegionId],
        into: Inputs[R],
        sources: bool = True,
    ) -> None:
        """Everything new since `positions`, up to about `max_rows` rows; without `sources`, only what others sent."""
        into.positions, into.part = dict(positions), self.logs.part
        into.peers = tuple(peer for peer in self.logs.peers() if peer not in fenced)
        sent = {peer: list(self._sent(peer, positions.get(peer_log(peer)))) for peer in into.peers}
        scans = self.shape.plan.scans
        read = {i: list(self._read(i, scan, positions)) for i, scan in scans} if sources else {}
        needed = max([deployment.epoch, *(commit.epoch for found in sent.values() for _, commit in found)])
        changes = list(self.logs.epochs(positions[CONTROL], deployment, needed))
        line = self._line(positions, deployment, changes)
        for peer in into.peers:
            self._take_peer(into, peer, sent[peer], line, positions)
        for number, change in changes:
            if line is None or number < line.epoch:
                into.positions[CONTROL] = number
                into.changes.append(change)
        if line is not None and not sources:
            read = {i: list(self._read(i, scan, positions)) for i, scan in scans}
        share = max(self.max_rows - into.rows, 0) / max(len(read), 1)
        for index, scan in scans:
            # Each scan its share: a backlog on one side of a join must not starve the other.
            end = math.inf if line is None else line.ends[index]
            self._take_source(into, index, scan, read.get(index, ()), into.rows + share, end)
        into.more = line is not None or into.rows >= share

    def waiting(self, positions: Mapping[str, int], fenced: Collection[RegionId]) -> bool:
        """Whether anything new is there, without reading it."""
        # (what is most often so is asked first)
        for index, scan in self.shape.plan.scans:
            if self.logs.grown(name := scan_log(index, scan), positions.get(name)):
                return True
        for peer in self.logs.peers():
            if peer in fenced or self._stopped(peer, positions, fenced):
                continue
            if self.logs.grown(name := peer_log(peer), positions.get(name)):
                return True
        return self.logs.grown(CONTROL, positions[CONTROL])

    def _stopped(self, peer: RegionId, positions: Mapping[str, int], fenced: Collection[RegionId]) -> bool:
        """Whether a peer's next message was seen, and comes behind one of another that is not here."""
        after, other, number = self._behind.get(peer, (None, peer, 0))
        stands = other not in fenced and positions.get(peer_log(peer)) == after
        return stands and (positions.get(peer_log(other)) or 0) < number

    def _line(
        self, positions: Mapping[str, int], deployment: Deployment, changes: Iterable[tuple[int, EpochChange]]
    ) -> Line | None:
        """The next epoch with a line that is not reached; those before it may be adopted."""
        before = list(deployment.of_shape(self.shape.key))
        for number, change in changes:
            queries = list(change.deployment.of_shape(self.shape.key))
            begins, before = begins_reading(before, queries), queries
            if not (begins or any(parts_plans(query, number) for query in queries)):
                continue
            ends = {
                index: self.logs.start(number, f"{self.region}/{scan.stream}") for index, scan in self.shape.plan.scans
            }
            if any(positions.get(scan_log(i, s), 0) < ends[i] for i, s in self.shape.plan.scans):
                return Line(number, ends)
        return None

    def _sent(self, peer: RegionId, after: int | None) -> Iterable[tuple[int, PeerCommit[R]]]:
        rows = 0
        for number, commit in self.logs.messages(peer, after):
            if rows >= self.max_rows:
                return
            yield number, commit
            rows += sum(sent.count for sent in commit.sent)

    def _take_peer(
        self,
        into: Inputs[R],
        peer: RegionId,
        sent: Iterable[tuple[int, PeerCommit[R]]],
        line: Line | None,
        positions: Mapping[str, int],
    ) -> None:
        for number, commit in sent:
            for other, first in commit.behind.items():
                # (by what was taken in before this micro-batch: its results are in a commit before)
                if other in into.peers and (positions.get(peer_log(other)) or 0) < first:
                    self._behind[peer] = into.positions.get(peer_log(peer)), other, first
                    into.behind.append((other, first))
                    return
            if into.rows >= self.max_rows or (line is not None and commit.epoch >= line.epoch):
                return
            into.positions[peer_log(peer)] = number
            into.take_commit(self.region, peer, commit)

    def _read(self, index: int, scan: Scan, positions: Mapping[str, int]) -> Iterable[tuple[int, SourceEntry[R]]]:
        rows = 0
        for number, entry in self.logs.entries(index, scan, positions.get(scan_log(index, scan))):
            if rows >= self.max_rows:
                return
            yield number, entry
            rows += entry.count

    def _take_source(
        self,
        into: Inputs[R],
        index: int,
        scan: Scan,
        read: Iterable[tuple[int, SourceEntry[R]]],
        until: float,
        end: float,
    ) -> None:
        for number, entry in read:
            if into.rows >= until or number > end:
                return
            into.positions[scan_log(index, scan)] = number
            into.take_entry(index, scan, entry)


def _heard(index: int, scan: Scan, entry: SourceEntry[R]) -> Iterator[Heard]:
    marks = _by_arrival(entry) if scan.arrival else entry.marks
    return ((index, source_id(scan.stream, device), mark) for device, mark in marks.items())


def _by_arrival(entry: SourceEntry[R]) -> dict[str, Mark]:
    """Whatever a device will still send arrives after this entry, closed or away as it may be."""
    assert entry.entered is not None
    return {device: replace(mark, clock=arrived_us(entry.entered)) for device, mark in entry.marks.items()}


def arrived_us(entered: float) -> int:
    """When the rows of an entry arrived, in microseconds: what queries read as `_arrived`."""
    return round(entered * 1e6)


def begins_reading(before: Sequence[Query], queries: Sequence[Query]) -> bool:
    """Whether a shape gets its first query: rows from before that, which nobody has read, are nobody's."""
    return bool(queries) and not before


def parts_plans(query: Query, epoch: int) -> bool:
    """Whether a query's plan version begins, or ends, with an epoch."""
    return query.until == epoch or (query.inherits is not None and query.begins == epoch)
