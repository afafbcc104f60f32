"""The live driver: plays a trace against something that runs. Devices hop, buffer while they are away, and flush.

    driver = Driver(trace, [Feed("passengers", payload, 1000)], FleetTarget(fleet), start_ms=..., gap_ms=300)
    driver.play()

A hand-over is a detach and, `gap_ms` later, an attach; what a device sends in between waits on the device. Event time
is `start_ms` plus the trace's time; at speed 1 it is the wall clock's. Every tick the devices that are attached also
say how far they have come, as a keep-alive would, so that a silent train does not keep windows open.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from godwit.ids import DeviceId, SiteId
from godwit.mobility.trace import Trace, TraceEvent
from godwit.model.changes import DeviceMoved

if TYPE_CHECKING:
    from godwit.api.fleet import Fleet

Tables = dict[str, list[pa.Table]]


class Clock(Protocol):
    """Wall time, or a test's own."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class WallClock:
    """Seconds that really pass."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class TickingClock:
    """Time that passes only by waiting for it: a trace is played as fast as the target takes it."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Sends(Protocol):
    """A payload generator, as far as the driver needs it."""

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        """The rows of a device that arrive in [t0, t1)."""


@dataclass(frozen=True)
class Feed:
    """What the devices send into one stream."""

    stream: str
    payload: Sends
    #: a row arrives at most so long after it happened
    disorder_ms: int


@dataclass(frozen=True)
class Cue:
    """At this moment of the trace the device is attached there, or nowhere."""

    t: float
    device: str
    site: str | None
    #: nothing more comes from the device in this trace
    last: bool = False


class TraceTarget(Protocol):
    """What a trace is played against."""

    def move(self, moves: Sequence[Cue]) -> None:
        """Devices changed their attachment, in this order."""

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        """Rows of attached devices; `where`: device -> site."""

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        """Attached devices have come so far (microseconds): nothing older will follow from them."""

    def leave(self, device: str) -> None:
        """The device is away for good: no window waits for it."""


class FleetTarget:
    """A fleet: moves are topology changes for its coordinator."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def move(self, moves: Sequence[Cue]) -> None:
        self._fleet.change([DeviceMoved(DeviceId(c.device), SiteId(c.site) if c.site else None) for c in moves])

    def push(self, stream: str, rows: pa.Table, where: Mapping[str, str]) -> None:
        self._fleet.push(stream, rows)

    def tell(self, stream: str, clocks: Mapping[str, int]) -> None:
        self._fleet.tell_time(stream, {DeviceId(d): clock for d, clock in clocks.items()})

    def leave(self, device: str) -> None:
        self._fleet.close_device(DeviceId(device))


def cues(trace: Trace, gap_ms: int = 0) -> list[Cue]:
    """The attachment changes to carry out, in order; a hand-over takes `gap_ms` (less where the next is nearer)."""
    by_device: dict[str, list[TraceEvent]] = {}
    for event in trace.events:
        by_device.setdefault(event.device, []).append(event)
    found = [cue for events in by_device.values() for cue in _cues(events, gap_ms)]
    return sorted(found, key=lambda cue: (cue.t, cue.device))


def _cues(events: Sequence[TraceEvent], gap_ms: int) -> Iterator[Cue]:
    for i, event in enumerate(events):
        if event.kind != "handover" or gap_ms <= 0:
            yield Cue(event.t, event.device, event.site, last=event.site is None and i + 1 == len(events))
            continue
        until = events[i + 1].t - 1 if i + 1 < len(events) else event.t + gap_ms
        yield Cue(event.t, event.device, None)
        yield Cue(max(min(event.t + gap_ms, until), event.t + 0.5), event.device, event.site)


@dataclass
class Driver:
    """Plays a trace. `play` returns when it is over; other threads may read its figures meanwhile."""

    trace: Trace
    feeds: Sequence[Feed]
    target: TraceTarget
    #: epoch milliseconds of the trace's moment 0, as the payloads have it
    start_ms: int = 0
    speed: float = 1.0
    gap_ms: int = 0
    tick_ms: int = 200
    clock: Clock = field(default_factory=WallClock)
    #: called after every tick
    watch: Callable[[Driver], None] = lambda driver: None
    #: device -> site, now; what the target already knows
    attached: dict[str, str] = field(default_factory=dict)

    #: the trace's time now, and what happened so far
    t: float = field(default=0.0, init=False)
    handovers: int = field(default=0, init=False)
    changes: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)
    buffered: int = field(default=0, init=False)
    #: the last attachments: (trace ms, device, from, to)
    log: deque[tuple[float, str, str, str]] = field(default_factory=lambda: deque(maxlen=12), init=False)

    def __post_init__(self) -> None:
        self._cues = cues(self.trace, self.gap_ms)
        self._next = 0
        self._known = set(self.attached)
        self._waiting: dict[str, Tables] = {}
        self._left: dict[str, str] = {}
        self._end = max([float(self.trace.duration_ms), *(cue.t + 1 for cue in self._cues)])

    def play(self) -> None:
        """From where it stands to the end."""
        self._follow()
        started = self.clock.now() - self.t / 1000 / self.speed
        while self.t < self._end:
            self.watch(self)
            until = min(self.t + self.tick_ms * self.speed, self._end)
            wait = started + until / 1000 / self.speed - self.clock.now()
            if wait > 0:
                self.clock.sleep(wait)
            else:
                # Behind: take all that is due at once, as a device that was kept waiting would.
                until = min((self.clock.now() - started) * 1000 * self.speed, self._end)
            self._tick(until)
        self.watch(self)

    def last_tick(self) -> None:
        """What has moved at the very end of the trace gets a tick to come into force, as everything before it had."""
        self.clock.sleep(self.tick_ms / 1000)

    def _tick(self, until: float) -> None:
        """Rows up to `until` go out where the devices are; then those that move, move and flush."""
        self._collect(int(self.t), int(until))
        self.t = until
        self._send(list(self.attached))
        self._follow()
        self._tell()

    def _collect(self, t0: int, t1: int) -> None:
        for feed in self.feeds:
            for device in self.trace.devices:
                table = feed.payload.batch(device, t0, t1)
                if table.num_rows:
                    self._waiting.setdefault(device, {}).setdefault(feed.stream, []).append(table)

    def _send(self, devices: Sequence[str]) -> None:
        """What these devices hold goes out, one table a stream."""
        ready: Tables = {}
        for device in devices:
            for stream, tables in self._waiting.pop(device, {}).items():
                ready.setdefault(stream, []).extend(tables)
        for stream, tables in ready.items():
            rows = pa.concat_tables(tables)
            self.target.push(stream, rows, self.attached)
            self.rows += rows.num_rows
        self.buffered = sum(t.num_rows for held in self._waiting.values() for ts in held.values() for t in ts)

    def _follow(self) -> None:
        """Carry out the cues that are due: together, unless a device has several (each must be seen)."""
        due: list[Cue] = []
        while self._next < len(self._cues) and self._cues[self._next].t <= self.t:
            cue = self._cues[self._next]
            self._next += 1
            if cue.device in {c.device for c in due}:
                self._move(due)
                due = []
            if self.attached.get(cue.device) != cue.site or cue.device not in self._known:
                due.append(cue)
        self._move(due)

    def _move(self, moves: Sequence[Cue]) -> None:
        if not moves:
            return
        self.target.move(moves)
        for cue in moves:
            self.changes += 1
            self._known.add(cue.device)
            before = self.attached.pop(cue.device, None)
            if before is not None:
                self._left[cue.device] = before
            if cue.site is not None:
                self.attached[cue.device] = cue.site
                self.handovers += cue.device in self._left
                self.log.append((self.t, cue.device, self._left.get(cue.device, "-"), cue.site))
            if cue.last:
                self.target.leave(cue.device)
        self._send([cue.device for cue in moves if cue.site is not None])

    def _tell(self) -> None:
        for feed in self.feeds:
            clock = int((self.start_ms + int(self.t) - feed.disorder_ms) * 1000)
            self.target.tell(feed.stream, dict.fromkeys(self.attached, clock))
