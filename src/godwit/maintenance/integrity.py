"""Whether a fleet's logs fit together: no gaps, and no reader is further than the end of its log.

Cheap enough to be done whenever a fleet is opened: one listing a log, and the newest commit of every (region, shape).
What lies in the files is verified when it is read, or by `godwit check` (`check.py`).

A region may keep its logs where they cannot be reached now, behind a link that is cut: they are inspected later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from godwit.errors import StateError, StoreAwayError
from godwit.ids import RegionId
from godwit.storage import names
from godwit.storage.records import CommitRecord
from godwit.storage.store import Store

#: what mends it: a sink's results are delivered again; a shape is computed again from its sources; a file is dropped
Remedy = Literal["redeliver", "replay", "drop", "none"]


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was written."""

    severity: Literal["error", "warning", "note"]
    #: file or log, relative to the store
    where: str
    what: str
    remedy: Remedy = "none"
    #: the shape that must be computed again, if that is the remedy
    shapes: frozenset[str] = field(default_factory=frozenset)


def inspect(store: Store) -> set[RegionId]:
    """Raise a StateError if a fleet's logs do not fit together. Returns the regions whose logs cannot be reached now:
    of these nothing is known."""
    away: set[RegionId] = set()
    for finding in sequences(store, away):
        folder = store.disk.root
        msg = f"{store.where(finding.where)}: {finding.what}; restore it from a copy, or see `godwit check {folder}`"
        raise StateError(msg)
    return away


def logs(store: Store) -> Iterator[str]:
    """The names of all logs that are there."""
    yield names.CONTROL
    for region in names.regions(store.disk):
        yield from _logs_of(store, region)


@contextmanager
def _passing(region: RegionId, away: set[RegionId] | None) -> Iterator[None]:
    """Go on without a region that cannot be reached, and remember it."""
    try:
        yield
    except StoreAwayError:
        if away is None:
            raise
        away.add(region)


def _logs_of(store: Store, region: RegionId) -> Iterator[str]:
    for stream in names.streams_of(store.disk, region):
        yield names.source_log(region, stream)
    for shape in names.shapes_of(store.disk, region):
        key = region, shape
        yield names.commit_log(*key)
        yield names.kept_log(*key)
        for receiver in names.receivers(store.disk, *key):
            yield names.outbox_log(*key, receiver)


def sequences(store: Store, away: set[RegionId] | None = None) -> Iterator[Finding]:
    """Gaps, and positions past the end of a log. `away`: is told of regions that cannot be reached; None: raise."""
    yield from _gaps(store, names.CONTROL)
    regions = names.regions(store.disk)
    for region in regions:
        with _passing(region, away):
            for log in _logs_of(store, region):
                yield from _gaps(store, log)
    ends: dict[str, int] = {}
    positions = list(_begun(store))
    for region in regions:
        with _passing(region, away):
            positions += _positions(store, region)
    for log, position, by, shapes in positions:
        if log not in ends:
            ends[log] = position
            with _passing(RegionId(names.owner_of(log) or ""), away):
                ends[log] = store.log(log).last
        if position > ends[log]:
            what = f"its newest records are missing: it ends at {ends[log]}, but {by} has read up to {position}"
            yield Finding("error", log, what, "none", shapes)
            ends[log] = position  # said once


def _gaps(store: Store, log: str) -> Iterator[Finding]:
    floor = store.floor(log)
    numbers = [number for number in store.numbers(log) if number >= floor]
    expected = floor if floor > 1 else 1
    for number in numbers:
        if number != expected:
            yield Finding("error", log, f"records {expected} to {number - 1} are missing", "none")
            return
        expected = number + 1


#: (log, how far it was read for good, by which reader, and the reader's shape)
_Position = tuple[str, int, str, frozenset[str]]


def _begun(store: Store) -> Iterator[_Position]:
    control, starts = store.log(names.CONTROL), _starts(store)
    for place, position in starts.items():
        region, _, stream = place.partition("/")
        yield names.source_log(region, stream), position, f"epoch {control.last}", frozenset()


def _positions(store: Store, region: RegionId) -> Iterator[_Position]:
    for shape in names.shapes_of(store.disk, region):
        commits = store.log(names.commit_log(region, shape))
        record = commits.read(commits.last) if commits.last else None
        for log, position in () if record is None else _read_by(CommitRecord.from_json(record), region, shape):
            yield log, position, f"region '{region}' (shape {shape})", frozenset((shape,))


def _starts(store: Store) -> dict[str, int]:
    """Where the sources' logs stood at the newest epoch: "region/stream" -> number."""
    control = store.log(names.CONTROL)
    newest = control.read(control.last) if control.last else None
    return {} if newest is None else newest["starts"]


def _read_by(commit: CommitRecord, region: str, shape: str) -> Iterator[tuple[str, int]]:
    for name, position in commit.positions.items():
        kind, _, rest = name.partition(":")
        if kind == "control":
            yield names.CONTROL, position
        elif kind == "peer":
            yield names.outbox_log(rest, shape, region), position
        else:
            yield names.source_log(region, rest.partition(":")[2]), position
