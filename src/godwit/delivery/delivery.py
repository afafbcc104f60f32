"""Deliveries: a sink follows the committed results of one query, region by region, with its position on disk.

A delivery that is in step with a region is handed each commit's results as they are committed; they wait in a short
queue. One that is not (it has just begun, it failed, or its queue was full) reads the commit log until it is.

The position is one atomic document; housekeeping keeps what it has not passed. It is written some time after the sink
has taken results, once for many commits, so a crash in between repeats those: the sink says whether that shows.

Where a sink gets results from several regions, because that of its query has moved, it gets them in the order in which
the commits were made, however far it lags (`protocol/delivery_order.py`).
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from godwit.delivery.archive import entries_in_order
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.ids import QueryId, RegionId
from godwit.maintenance.duties import Attempts
from godwit.storage import names
from godwit.storage.by_query import may_hold
from godwit.storage.log import Segment
from godwit.storage.store import Store

log = logging.getLogger(__name__)

#: limit of commits queued in memory for a busy sink; later ones are read from the log
MOST_WAITING = 256
#: how often a position is written while results flow (seconds)
SAVE_EVERY = 5.0


@dataclass(frozen=True)
class Subject:
    """The query whose results are delivered."""

    #: as the user calls it
    name: QueryId
    #: as its rows are marked: itself, or its newest version
    query: QueryId
    shape: str
    columns: tuple[str, ...]
    #: see `ResultBatch`
    key: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Announced:
    """How far the commits of a shape in a region were told of: `begun` before sinks were offered them, `done` after."""

    begun: int = 0
    done: int = 0


def positions(store: Store) -> Iterator[dict[str, Any]]:
    """How far each sink has come, as `Delivery` keeps it."""
    for name in names.sink_positions(store.disk):
        saved = store.get_document(name)
        if saved is not None:
            yield saved


class Delivery:
    """One sink of one query. Any thread may offer and pump; one at a time calls the sink."""

    def __init__(
        self,
        store: Store,
        subject: Subject,
        sink: ResultSink,
        announced: Callable[[RegionId, str], Announced] = lambda region, shape: Announced(),
    ) -> None:
        self._store, self.subject, self.sink, self._announced = store, subject, sink, announced
        digest = hashlib.sha256(sink.name.encode()).hexdigest()[:12]
        self._name = names.sink_position(subject.name, digest)
        saved = self._standing()
        self.positions: dict[RegionId, int] = saved["positions"]
        self._attempts = Attempts()
        #: held while the sink is called
        self._turn = threading.Lock()
        #: guards the four below; never held while the sink is called or anything is read
        self._guard = threading.Lock()
        self._queue = deque[tuple[RegionId, int, Sequence[Segment], Mapping[RegionId, int]]]()
        #: regions whose commits come through the queue; and those whose log is to be read first
        self._in_step: set[RegionId] = set()
        self._behind: set[RegionId] = set()
        self._scheduled = False
        self._ended = False
        sink.open(saved["state"])
        self._saved_at = 0.0
        self._saved: dict[RegionId, int] = {}
        self._save(sink.state())  # (a sink that has just named its output must find it again after a crash)

    @property
    def failure(self) -> Exception | None:
        """Why the sink does not take results now; it is tried again, from the last position that was kept."""
        return self._attempts.failure

    @property
    def pause(self) -> float:
        """Seconds until a sink that failed is tried again."""
        return max(self._attempts.not_before - time.monotonic(), 0.0)

    # --- told of commits

    def offer(
        self,
        region: RegionId,
        number: int,
        results: Sequence[Segment],
        after: Mapping[RegionId, int] = MappingProxyType({}),
    ) -> bool:
        """A commit has results of the query; `after`: of which others it comes behind. Whether the caller must `work`
        now: no thread is about to."""
        with self._guard:
            if region in self._in_step and len(self._queue) < MOST_WAITING:
                self._queue.append((region, number, results, after))
            else:
                self._in_step.discard(region)
                self._behind.add(region)
            return self._ask()

    def lose_step(self, region: RegionId) -> bool:
        """Commits may have passed without notice: read the log. Returns the same."""
        with self._guard:
            self._in_step.discard(region)
            self._behind.add(region)
            return self._ask()

    def _ask(self) -> bool:
        asked, self._scheduled = self._scheduled, True
        return not asked and self.failure is None

    # --- delivering

    def work(self) -> None:
        """Deliver what was offered."""
        self._pump(whole=False)

    def pump(self) -> None:
        """Deliver everything that is committed and not delivered, whether it was offered or not."""
        self._pump(whole=True)

    def flush(self) -> None:
        """The same, and keep the position."""
        self._pump(whole=True)
        self.keep()

    def _pump(self, whole: bool) -> None:
        with self._turn:
            if self._ended or not self._attempts.due(time.monotonic()):
                return
            try:
                if self.failure is not None:
                    self._reopen()
                if whole or self.failure is not None:
                    there = set(names.regions_of(self._store.disk, self.subject.shape))
                    with self._guard:
                        self._behind |= there
                while self._deliver_next():
                    if time.monotonic() - self._saved_at >= SAVE_EVERY:
                        self._save(self.sink.state())
            except Exception as error:  # whatever a sink raises must not end the thread that serves the others
                self._attempts.failed(error, time.monotonic())
                self._lose_everything()
                log.error(  # (a server that is away raises at each attempt: its driver's stack says nothing more)
                    "sink %s of query %s has failed: %s: %s; it is tried again",
                    self.sink.name, self.subject.name, type(error).__name__, " ".join(str(error).split()),
                    exc_info=log.isEnabledFor(logging.INFO),
                )  # fmt: skip
            else:
                self._attempts.succeeded()

    def _deliver_next(self) -> bool:
        """Something that waits; False: nothing does."""
        with self._guard:
            if self._queue:
                region, number, results, after = self._queue.popleft()
            elif self._behind:
                region, number, results, after = self._behind.pop(), 0, (), {}
            else:
                self._scheduled = False
                return False
        if number:
            for peer in [peer for peer, commit in after.items() if not self._has(peer, commit)]:
                self._catch_up(peer)
            self._write(region, number, results)
        else:
            self._catch_up(region)
        return True

    def _has(self, region: RegionId, number: int) -> bool:
        """Whether the sink has the results of a region up to a commit."""
        with self._guard:
            told = self._announced(region, self.subject.shape).done if region in self._in_step else 0
            none_waits = all(one != region for one, *_ in self._queue)
        return number <= max(self.positions.get(region, 0), told if none_waits else 0)

    def _catch_up(self, region: RegionId) -> None:
        """Read the region's log to its end; then commits come through the queue. One that comes behind another which
        is not here yet is left for the next time."""
        going = True
        while going:
            going = False
            for one, entry in entries_in_order(self._store, region, self.subject.shape, self.positions):
                self._write(one, entry.number, entry.results)
                going = True
            with self._guard:
                # Whatever is told of from now on finds the region in step; what was before, has been read.
                if self._announced(region, self.subject.shape).begun <= self.positions.get(region, 0):
                    self._in_step.add(region)
                    self._behind.discard(region)
                    return

    def _write(self, region: RegionId, number: int, results: Sequence[Segment]) -> None:
        if number <= self.positions.get(region, 0):
            return  # read from the log before it came through the queue
        subject = self.subject
        mine = [segment for segment in results if may_hold(segment, subject.query)]
        if mine:
            told = (subject.query, subject.columns, mine, subject.shape, subject.key)
            self.sink.write(ResultBatch(region, number, *told))
        self.positions[region] = number

    def _lose_everything(self) -> None:
        with self._guard:
            self._queue.clear()
            self._in_step.clear()
            self._behind.clear()
            self._scheduled = False

    def _reopen(self) -> None:
        """What the sink wrote after the last position that was kept never happened."""
        saved = self._standing()
        self.positions = saved["positions"]
        self.sink.open(saved["state"])

    # --- the position

    def _standing(self) -> dict[str, Any]:
        """The position and the sink's state that were kept; commits of another shape are counted again."""
        saved = self._store.get_document(self._name) or {"positions": {}, "state": {}}
        return saved if saved.get("shape", self.subject.shape) == self.subject.shape else {**saved, "positions": {}}

    def keep(self, *, wait: bool = True) -> bool:
        """Write the position down if it has changed; False: the sink is busy just now (and `wait` is not)."""
        if not self._turn.acquire(blocking=wait):
            return False
        try:
            if self.failure is None:
                self._pass_over()
                if self.positions != self._saved:
                    self._save(self.sink.state())
        finally:
            self._turn.release()
        return True

    def _pass_over(self) -> None:
        """Commits without results of the query are not offered: they are passed once all before them is delivered."""
        with self._guard:
            for region in self._in_step if not self._queue else ():
                done = self._announced(region, self.subject.shape).done
                self.positions[region] = max(self.positions.get(region, 0), done)

    def end(self) -> None:
        """Another sink goes on from here: returns when this one is not at work, and its position is kept."""
        with self._turn:
            self._ended = True
        self.keep()
        self.close()

    def close(self) -> None:
        """Let the sink let go of its connections, unless it is at work just now."""
        if self._turn.acquire(blocking=False):
            try:
                self.sink.close()
            finally:
                self._turn.release()

    def detach(self) -> None:
        """Deliver no more, and let go of what was not delivered."""
        self._store.delete_document(self._name)

    def _save(self, state: dict[str, Any]) -> None:
        record = {
            "query": self.subject.name,
            "shape": self.subject.shape,
            "sink": self.sink.name,
            "exactly_once": self.sink.exactly_once,
            "positions": self.positions,
            "state": state,
        }
        self._store.put_document(self._name, record)
        self._saved, self._saved_at = dict(self.positions), time.monotonic()
