"""Housekeeping: what every reader has passed goes, so that a fleet may run for weeks in a folder of bounded size.

A reader's safe position is the one in its last commit record: a restart begins there. So

    commit records   go when no restart needs them and all sinks have delivered them; results, late rows and totals
                     are merged into `kept` first
    messages         go when the region they are for has committed to have read them
    data files       of those commits go one pass later, except for state that is still live and what messages name
    source entries   go when every shape that reads them has committed past them and they are old enough
    devices          that left are forgotten when every shape has committed past the last that they sent
    epochs           go when every region has committed past them; a whole copy takes their place
    kept results     go by age and number, as `Retention` says
    shapes           that run nowhere go when their last commit is as old as results may be

A pass is done bit by bit, so that micro-batches have the processor in between: on a busy machine a pass in one go was
seen as a second of latency. What it goes by was read at its beginning, and readers only ever go on from there.

Recorded files that lie outside of the fleet's folder are never touched. `keep=True` keeps sources and results for ever,
which is what the oracle needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from godwit.delivery import archive as kept
from godwit.delivery.delivery import positions
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.source_state import fold_marks
from godwit.model.plan import Shape
from godwit.protocol.inputs import peer_log
from godwit.protocol.watermarks import split_source
from godwit.storage import names
from godwit.storage.epoch_log import Control
from godwit.storage.log import Log, Record
from godwit.storage.names import commit_data, commit_log
from godwit.storage.state_memory import remembered, since_snapshot
from godwit.storage.store import Store

Key = tuple[RegionId, str]
#: device -> source log -> the entry that says that it has left
Departed = Mapping[DeviceId, Mapping[tuple[RegionId, StreamId], int]]

#: commit records that stay in any case: latencies are measured over them
RECENT = 64
#: epochs that are worth a whole copy of the deployment
MANY_EPOCHS = 100


@dataclass(frozen=True)
class Retention:
    """For how long a fleet keeps what it no longer needs to continue."""

    #: sources and results stay for ever
    keep: bool = False
    #: rows of sources, for the oracle and for looking back
    source_seconds: float = 900.0
    #: sources keep everything, whatever its age: state may have to be made of it again
    backup: bool = False
    #: results, for `q.results()`
    result_seconds: float = 86_400.0
    #: ... of a (region, shape); the newest stay
    result_rows: int = 50_000_000
    #: commits, over all regions and shapes, between two passes
    every: int = 200


@dataclass
class Swept:
    """What a pass has removed."""

    commits: int = 0
    entries: int = 0
    epochs: int = 0
    files: int = 0
    #: whose results lie in other files now, or are gone
    folded: set[Key] = field(default_factory=set)
    #: shapes that run nowhere, and whose results are too old
    shapes: set[str] = field(default_factory=set)
    #: devices that left, and have been read to the end
    devices: set[DeviceId] = field(default_factory=set)


class Housekeeper:
    """Passes over a fleet's folder. One per fleet, and one pass at a time."""

    def __init__(
        self,
        store: Store,
        retention: Retention,
        now: Callable[[], float] = time.time,
        known: Callable[[DeviceId], bool] = lambda device: True,
        mine: Callable[[RegionId], bool] = lambda region: True,
        epochs: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`known`: whether a device is there, or has left and its rows may be unread. `mine`: whether this process
        writes a region's logs. `epochs`: through which one only runners need them; None: whichever."""
        self._store, self.retention, self._now, self._known = store, retention, now, known
        self._mine, self._needed_epochs = mine, epochs
        #: data folders below these numbers had no readers left at the last pass
        self._free: dict[Key, int] = {}
        self._done_at = 0
        self._queries: AbstractSet[str] = frozenset()
        self._departed: Departed = {}

    def behind(self, commits: int) -> float:
        """How much happened since the last pass began (`commits`: the sum over all runners); from 1 on one is due."""
        return (commits - self._done_at) / self.retention.every

    def bits(
        self,
        shapes: Iterable[Shape],
        queries: AbstractSet[str],
        commits: int,
        swept: Swept,
        departed: Departed | None = None,
    ) -> Iterator[None]:
        """One pass, of some milliseconds a bit, into `swept`.

        `shapes` and `queries`: those that run; what others once read, or had delivered, goes. `departed`:
        devices that have left, with the entries that end what they sent.
        """
        self._done_at, self._queries, self._departed = commits, queries, departed or {}
        running = {shape.key: shape for shape in shapes}
        newest = {key: self._newest(key) for key in names.shapes(self._store.disk) if key[1] in running}
        swept.shapes |= self._forsaken(running)
        live = self._live(newest)
        sources = self._sources()
        self._devices(running, newest, swept)
        yield
        for key in [key for key in newest if self._mine(key[0])]:
            yield from self._commits(key, newest, swept)
            self._results(key, swept)
            unread = min([self._messages(key, receiver, newest) for receiver in self._receivers(key)], default=2**62)
            yield from self._data(key, live, unread, swept)
        for region, stream, log in sources:
            self._source(region, stream, log, running, newest, swept)
            yield
        self._epochs(newest, swept)
        for key in self._free.keys() - newest.keys():
            del self._free[key]

    def _newest(self, key: Key) -> Record | None:
        return self._store.log(commit_log(*key)).newest()

    def _forsaken(self, running: Collection[str]) -> set[str]:
        """Shapes that run nowhere, and whose results may go."""
        idle = {shape for _, shape in names.shapes(self._store.disk)} - set(running)
        if self.retention.keep:
            return set()
        last: dict[str, float] = dict.fromkeys(idle, 0.0)
        for key in [key for key in names.shapes(self._store.disk) if key[1] in idle]:
            newest = self._newest(key)
            last[key[1]] = max(last[key[1]], newest["metrics"]["wall"] if newest is not None else 0.0)
        for shape in last.keys() & {p["shape"] for p in positions(self._store) if p["query"] in self._queries}:
            del last[shape]
        return {shape for shape, wall in last.items() if wall <= self._now() - self.retention.result_seconds}

    def _live(self, newest: Iterable[Key]) -> AbstractSet[str]:
        """Files of state, and of what a region was promised and has not fetched yet."""
        memories = (remembered(None, since_snapshot(self._store.log(commit_log(*key)))) for key in newest)
        found: set[str] = set()
        for memory in (memory for memory in memories if memory is not None):
            found.update(file for segment in memory.segments() for file in segment.files)
            parts = (part for parcel in memory.rest["underway"] for part in parcel["parts"].values())
            found.update(file for part in parts for segment in part for file in segment["files"])
        return found

    # --- commit records

    def _commits(self, key: Key, newest: dict[Key, Record | None], swept: Swept) -> Iterator[None]:
        """Fold the records that all readers have passed into `kept`, then drop them."""
        log = self._store.log(commit_log(*key))
        fold = kept.Fold(self._store, *key)
        last = newest[key]
        needed = log.last if last is None else last["protocol"]["snapshot"]  # a restart begins there
        below = min(self._delivered(key), log.last - RECENT, needed - 1) + 1
        for number, record in log.after(max(fold.through, log.first - 1)):
            if number >= below:
                break
            fold.add(number, record)
            yield
        if fold.write(lambda source: self._known(DeviceId(split_source(source)[1])), self._queries.__contains__):
            swept.folded.add(key)
        for _ in log.drop(min(below, fold.through + 1)):
            swept.commits += 1
            yield

    def _receivers(self, key: Key) -> list[RegionId]:
        return names.receivers(self._store.disk, *key)

    def _messages(self, key: Key, receiver: RegionId, newest: dict[Key, Record | None]) -> int:
        """Drop what the receiver has read; returns the first commit of which it still has something before it."""
        region, shape = key
        log = self._store.log(names.outbox_log(region, shape, receiver))
        read = _position(newest.get((receiver, shape)), peer_log(region))
        unread = log.read(read + 1)
        for _ in log.drop(read + 1):
            pass
        return 2**62 if unread is None else int(unread["commit"])

    def _delivered(self, key: Key) -> int:
        """How far the slowest sink of a query of the shape has come in this region."""
        region, shape = key
        mine = (p for p in positions(self._store) if p["shape"] == shape and p["query"] in self._queries)
        return min((p["positions"].get(region, 0) for p in mine), default=2**62)

    def _data(self, key: Key, live: AbstractSet[str], unread: int, swept: Swept) -> Iterator[None]:
        """Remove the files of dropped commits, one pass later: a reader may still be reading what was merged. From the
        `unread` commit on, another process needs them."""
        log = self._store.log(commit_log(*key))
        free, self._free[key] = self._free.get(key, 0), log.first
        data = commit_data(*key)
        for name in self._store.disk.names(data):
            number = names.number_of(name)
            if number is not None and number < min(free, unread):
                swept.files += self._remove(f"{data}/{name}", live)
                yield

    def _results(self, key: Key, swept: Swept) -> None:
        """Kept results go when they are too old, or too many."""
        if self.retention.keep:
            return
        log = self._store.log(names.kept_log(*key))
        records = list(log.after(log.first - 1))
        rows = 0
        for number, record in reversed(records):
            rows += sum(s["rows"] for s in record["results"])
            old = record["wall"] < self._now() - self.retention.result_seconds
            if (old or rows > self.retention.result_rows) and number < log.last:
                gone = log.truncate(number + 1)
                swept.folded.add(key)
                swept.files += self._delete(s for r in gone for s in (*r["results"], *r["late"]))
                return

    # --- sources and epochs

    def _sources(self) -> list[tuple[RegionId, StreamId, Log]]:
        """Logs of sources that need not keep all, as far as they go now: what comes while the pass lasts may be for
        shapes that are not known yet."""
        if self.retention.keep or self.retention.backup:
            return []
        found = [one for one in names.sources(self._store.disk) if self._mine(one[0])]
        return [(region, stream, self._store.log(names.source_log(region, stream))) for region, stream in found]

    def _devices(self, running: dict[str, Shape], newest: dict[Key, Record | None], swept: Swept) -> None:
        for device, ends in self._departed.items():
            read = (n <= min(self._read_to(*log, running, newest), default=n) for log, n in ends.items())
            if all(read):
                swept.devices.add(device)

    def _read_to(
        self, region: RegionId, stream: StreamId, running: dict[str, Shape], newest: dict[Key, Record | None]
    ) -> list[int]:
        """How far each reader of a source log has come for good."""
        return [
            _position(record, f"source:{index}:{stream}")
            for (r, key), record in newest.items()
            for index, scan in running[key].plan.scans
            if r == region and scan.stream == stream
        ]

    def _source(
        self,
        region: RegionId,
        stream: StreamId,
        log: Log,
        running: dict[str, Shape],
        newest: dict[Key, Record | None],
        swept: Swept,
    ) -> None:
        last = log.last  # as it was when the pass began
        read_to = self._read_to(region, stream, running, newest)
        below = log.first
        for number, record in log.after(log.first - 1):
            if number > min(read_to, default=last) or record["entered"] > self._now() - self.retention.source_seconds:
                break
            below = number + 1
        fold_marks(self._store, log, below, self._known)
        gone = log.truncate(below)
        swept.entries += len(gone)
        swept.files += self._delete(r["segment"] for r in gone if r["segment"] is not None)

    def _epochs(self, newest: dict[Key, Record | None], swept: Swept) -> None:
        control = Control(self._store)
        through = min((_position(record, "control") for record in newest.values()), default=0)
        needed = self._needed_epochs()
        through = min(through, control.last - 1 if needed is None else needed)
        if through - control.first + 1 >= MANY_EPOCHS:
            swept.epochs += control.forget(through)

    def _delete(self, segments: Iterable[Record]) -> int:
        """Delete the files of segments that are the fleet's own."""
        mine = [file for s in segments for file in s["files"] if not file.startswith("/")]
        for file in mine:
            self._store.delete(file)
            folder = file.rpartition("/")[0]
            if not folder.endswith("/data") and not self._store.disk.names(folder):
                self._store.disk.delete_folder(folder)
        return len(mine)

    def _remove(self, folder: str, live: AbstractSet[str]) -> int:
        """Delete a commit's files but those of live state, and the folders in which nothing is left."""
        disk, removed = self._store.disk, 0
        for name in disk.names(folder):
            file = f"{folder}/{name}"
            if disk.is_folder(file):
                removed += self._remove(file, live)
            elif file not in live:
                disk.delete(file)  # the runner may be cleaning up the same state
                removed += 1
        if not disk.names(folder):
            disk.delete_folder(folder)
        return removed


def _position(record: Record | None, log: str) -> int:
    """How far a reader has come for good; one that has never committed has read nothing."""
    return 0 if record is None else int(record["positions"].get(log, 0))
