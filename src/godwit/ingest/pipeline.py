"""Pushes that need not wait for each other: while some are on their way, the next ones gather, and go together.

    with fleet.pipeline() as pipeline:
        for number, rows in enumerate(readings, 1):
            pipeline.push("passengers", rows, device="t7", sequence=number)   # returns before the rows are durable
        pipeline.flush()                                            # all are, or an error says from which on not

A device's batches stay in order, and what gathers becomes one entry of the source log. Alone a push goes at once. Every
push has a sequence number, so that what is sent again after an error is taken once. Rows that do not fit their stream
stop nothing: they are dead letters, and `pipeline.dead` has the newest of them, each with the reason.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from godwit.errors import SourceError
from godwit.ingest.batches import as_table

#: pushes of a device that may wait; so many of them, or bytes, go together; devices that are served at once
WINDOW, TOGETHER, BYTES, AT_ONCE = 64, 32, 4_000_000, 4
#: so many dead letters are kept for whoever pushed; the fleet has all
KEPT_DEAD = 1_000
#: so many rows go together: entries of more were read at half the speed (docs/results/regions.md)
ROWS = 4_000

#: (stream, device)
Key = tuple[str, str]
#: stream, numbered batches, device, a list for those that do not fit
PushMany = Callable[[str, Sequence[tuple[int, Any]], str, list[dict[str, Any]]], object]


@dataclass
class _Lane:
    """A device's pushes of a stream: those that wait, the first of which may be on their way."""

    waiting: deque[tuple[int, Any]] = field(default_factory=deque)
    busy: bool = False
    #: the first number that was not taken, and why
    failed: tuple[int, BaseException] | None = None


class Pipeline:
    """For callers of any thread; the pushes of one device come from one."""

    def __init__(self, push_many: PushMany, window: int = WINDOW, closed: Callable[[], object] = lambda: None) -> None:
        """`push_many` is called on threads of the pipeline; `closed`: when they are gone."""
        if window < 1:
            msg = f"a pipeline needs room for at least one push, not {window}"
            raise SourceError(msg)
        self._push_many, self._window, self._closed = push_many, window, closed
        #: the newest rows that did not fit, each with the reason; whoever has read them may clear it
        self.dead: deque[dict[str, Any]] = deque(maxlen=KEPT_DEAD)
        self._lanes: dict[Key, _Lane] = {}
        self._changed = threading.Condition()
        self._workers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="godwit-pipeline")

    def push(self, stream: str, rows: Any, *, device: str, sequence: int) -> None:
        """Returns once there is room for it. SourceError: an earlier push of the device was not taken, nor was this."""
        table, key = as_table(stream, rows), (str(stream), str(device))
        with self._changed:
            lane = self._lanes.setdefault(key, _Lane())
            self._changed.wait_for(lambda: lane.failed is not None or len(lane.waiting) < self._window)
            self._raise(key, lane)
            lane.waiting.append((sequence, table))
            if not lane.busy:
                lane.busy = True
                self._workers.submit(self._serve, key, lane)

    def flush(self) -> None:
        """Returns when all is durable that was pushed. SourceError: what a device sent from a number on is not."""
        with self._changed:
            self._changed.wait_for(lambda: not any(lane.busy for lane in self._lanes.values()))
            for key, lane in self._lanes.items():
                self._raise(key, lane)

    def close(self) -> None:
        """After what is on its way."""
        self._workers.shutdown()
        self._closed()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def _raise(self, key: Key, lane: _Lane) -> None:
        if lane.failed is None:
            return
        (number, why), lane.failed = lane.failed, None
        stream, device = key
        msg = f"rows of device '{device}' for '{stream}' from sequence number {number} on were not taken: {why}"
        raise SourceError(msg) from why

    def _serve(self, key: Key, lane: _Lane) -> None:
        """One device's pushes until none wait. What fails takes those behind it along: in order, or not at all."""
        stream, device = key
        while True:
            with self._changed:
                group = _next_group(lane.waiting)
                if not group:
                    lane.busy = False
                    self._changed.notify_all()
                    return
            failed = self._sent(stream, device, group)
            with self._changed:
                for _ in group:
                    lane.waiting.popleft()
                if failed is not None:
                    lane.failed = failed
                    lane.waiting.clear()
                self._changed.notify_all()

    def _sent(self, stream: str, device: str, group: list[tuple[int, Any]]) -> tuple[int, BaseException] | None:
        dead = list[dict[str, Any]]()
        try:
            self._push_many(stream, group, device, dead)
        except Exception as fault:
            if len(group) == 1:
                return group[0][0], fault
        else:
            return None
        finally:
            self.dead.extend(dead)
        for one in group:  # which of them is it? Those before it are taken
            if (failed := self._sent(stream, device, [one])) is not None:
                return failed
        return None


def _next_group(waiting: deque[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The first ones, as many as go together: one at least."""
    found, size, rows = list[tuple[int, Any]](), 0, 0
    for one in list(waiting)[:TOGETHER]:
        size, rows = size + one[1].nbytes, rows + one[1].num_rows
        if found and (size > BYTES or rows > ROWS):
            break
        found.append(one)
    return found
