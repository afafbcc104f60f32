"""What one micro-batch takes in: new epochs, rows from sources and from other regions, state that arrives, marks.

`Reader.poll` looks at the logs and decides; it changes nothing. The step that follows processes the work and commits,
with the positions that the work has come to. After a crash the same positions are read again.

Order matters in one point: other regions' commits are read before the control log, so that no commit is taken in
that was made under an epoch this region has not heard of.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from godwit.ids import Epoch, RegionId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import EPOCH, Scan, Shape
from godwit.protocol.handover import Move
from godwit.protocol.watermarks import Mark, source_id
from godwit.storage.epoch_log import Control, moves_of
from godwit.storage.log import Log, Record, Segment

#: input of an operator -> rows of its state
Parts = dict[int, list[Segment]]


@dataclass(frozen=True)
class Arrived:
    """State that another region hands over."""

    move: Move
    parts: Parts
    #: how far the sender had let the query's clock go
    clock: int


@dataclass
class Work:
    """The input of one micro-batch."""

    deployments: list[Deployment] = field(default_factory=list)
    #: epoch -> the instances, of all shapes, that change region with it
    moves: dict[Epoch, tuple[Move, ...]] = field(default_factory=dict)
    #: scan -> rows of its stream
    sources: dict[int, list[Segment]] = field(default_factory=dict)
    #: (operator, input) -> rows from other regions, with the epoch they were sent under
    channels: dict[tuple[int, int], list[tuple[Segment, Epoch]]] = field(default_factory=dict)
    #: hand-overs that others announce, and state that is here
    parcels: list[Record] = field(default_factory=list)
    arrived: list[Arrived] = field(default_factory=list)
    marks: list[tuple[int, str, Mark]] = field(default_factory=list)
    #: marks of sources that are attached here: told to the others at first hand
    own_marks: list[tuple[int, str, Mark]] = field(default_factory=list)
    markers: list[tuple[RegionId, dict[int, Epoch]]] = field(default_factory=list)
    #: other regions' commits, whole
    told: list[tuple[RegionId, Record]] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    #: rows of each device, by stream: "stream/device" -> rows
    by_source: dict[str, int] = field(default_factory=dict)
    #: when the newest of these rows entered the fleet (wall clock, seconds), and its newest event time
    entered: float | None = None
    newest_us: int | None = None

    @property
    def empty(self) -> bool:
        return not (self.deployments or self.sources or self.channels or self.arrived or self.marks or self.markers)

    def stamp(self, entered: float | None, newest_us: int | None) -> None:
        if entered is not None:
            self.entered = max(self.entered or 0.0, entered)
        if newest_us is not None:
            self.newest_us = newest_us if self.newest_us is None else max(self.newest_us, newest_us)


def source_log(root: Path, region: RegionId, stream: StreamId) -> Path:
    return root / "regions" / region / "sources" / stream


def commit_log(root: Path, region: RegionId, shape: str) -> Path:
    return root / "regions" / region / "shapes" / shape / "commits"


class Reader:
    """Reads everything one (region, shape) listens to."""

    def __init__(self, root: Path, region: RegionId, shape: Shape, max_rows: int) -> None:
        self.root, self.region, self.shape, self.max_rows = root, region, shape, max_rows
        self.control = Control(root)
        self._sources = [
            (f"source:{index}:{scan.stream}", Log(source_log(root, region, scan.stream)))
            for index, scan in shape.plan.scans
        ]
        self._peers: dict[RegionId, Log] = {}
        self._place = ("shapes", shape.key, "commits")

    def poll(self, positions: dict[str, int], deployment: Deployment, sources: bool = True) -> Work:
        """Everything new since `positions`, up to about `max_rows` rows; without `sources`, only what others sent."""
        work = Work(positions=dict(positions))
        for region in self.peers():
            self._take_peer(work, region)
        ends = self._ends_of_parts()
        self._take_control(work, deployment)
        scans = self.shape.plan.scans if sources else ()
        share = max(self.max_rows - work.rows, 0) / max(len(scans), 1)
        for index, scan in scans:
            # Each scan its share: a backlog on one side of a join must not starve the other.
            self._take_source(work, index, scan, work.rows + share, ends.get(index, math.inf))
        return work

    def _ends_of_parts(self) -> dict[int, int]:
        """How far shared parts may be read: not past what was there before the control log was looked at, or a reader
        that has just begun could miss what was made for it."""
        scans = [(i, scan) for i, scan in self.shape.plan.scans if EPOCH in scan.columns]
        logs = dict(self._sources)
        return {i: logs[f"source:{i}:{scan.stream}"].end() for i, scan in scans}

    def peers(self) -> list[RegionId]:
        """The other regions that run, or ever ran, this shape."""
        # Asked for several times a micro-batch: without pathlib's patterns, which cost ten times as much.
        there = os.path.join(self.root, "regions")
        names = (name for name in os.listdir(there) if name != self.region)
        return sorted(RegionId(n) for n in names if os.path.isdir(os.path.join(there, n, *self._place)))

    def waiting(self, positions: dict[str, int]) -> bool:
        """Whether anything new is there, without reading it."""
        logs = [*self._sources, *((f"peer:{region}", self._peer(region)) for region in self.peers())]
        return self.control.exists(positions["control"] + 1) or any(
            log.exists(positions.get(name, log.first - 1) + 1) for name, log in logs
        )

    def _peer(self, region: RegionId) -> Log:
        if region not in self._peers:
            self._peers[region] = Log(commit_log(self.root, region, self.shape.key))
        return self._peers[region]

    def _take_peer(self, work: Work, region: RegionId) -> None:
        name = f"peer:{region}"
        log = self._peer(region)
        for number, record in log.after(work.positions.get(name, log.first - 1)):
            if work.rows >= self.max_rows:
                return
            work.positions[name] = number
            work.markers.append((region, {int(k): Epoch(e) for k, e in record["markers"].items()}))
            work.marks += _marks(record["marks"])
            for parcel in record["channels"]:
                if parcel["to"] == self.region:
                    segment = Segment.from_json(parcel["segment"])
                    target = (parcel["operator"], parcel["input"])
                    work.channels.setdefault(target, []).append((segment, Epoch(record["epoch"])))
                    work.rows += segment.rows
                    work.bytes += segment.bytes
                    work.stamp(record["entered"], record["newest_us"])
            for parcel in record["handovers"]:
                if Move.from_json(parcel["move"]).target == self.region:
                    work.parcels.append(parcel)
            work.told.append((region, record))

    def _take_control(self, work: Work, deployment: Deployment) -> None:
        for number, after, record in self.control.after(work.positions["control"], deployment):
            work.positions["control"] = number
            work.deployments.append(after)
            work.moves[after.epoch] = moves_of(record)

    def _take_source(self, work: Work, index: int, scan: Scan, until: float, end: float) -> None:
        name = f"source:{index}:{scan.stream}"
        log = dict(self._sources)[name]
        for number, record in log.after(work.positions.get(name, log.first - 1)):
            if work.rows >= until or number > end:
                return
            work.positions[name] = number
            for device, mark in record["marks"].items():
                heard = (index, source_id(scan.stream, device), Mark.from_json(mark))
                work.marks.append(heard)
                work.own_marks.append(heard)
            if record["segment"] is not None:
                segment = Segment.from_json(record["segment"])
                work.sources.setdefault(index, []).append(segment)
                work.rows += segment.rows
                work.bytes += segment.bytes
                work.stamp(record["entered"], record["newest_us"])
                for device, rows in record["rows"].items():
                    source = source_id(scan.stream, device)
                    work.by_source[source] = work.by_source.get(source, 0) + rows


def _marks(told: dict[str, dict[str, list[list[int]]]]) -> Iterator[tuple[int, str, Mark]]:
    for operator, sources in told.items():
        for source, marks in sources.items():
            yield from ((int(operator), source, Mark.from_json(mark)) for mark in marks)


def source_record(
    segment: Segment | None,
    marks: dict[str, Mark],
    rows: dict[str, int],
    newest_us: int | None,
    sequence: dict[str, int],
) -> Record:
    """One entry of a source log: rows of some devices, and how far each has come."""
    return {
        "segment": None if segment is None else segment.to_json(),
        "marks": {device: mark.to_json() for device, mark in marks.items()},
        "rows": rows,
        "newest_us": newest_us,
        "sequence": sequence,
        "entered": time.time(),
    }
