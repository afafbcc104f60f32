"""Movement as segments: a device goes in a straight line, at one speed, from one place and moment to another.

A timetable becomes segments (standing at a stop is one, too); positions are read off them at the ticks of a clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from godwit.mobility.geo import Floats, Ints, lon_step

#: positions made at once; bounds the memory of a worker, whatever the length of a day
CHUNK = 500_000


@dataclass(frozen=True)
class Segments:
    """Columns of segments, sorted by device and start. `owner` counts up by one from device to device."""

    owner: Ints
    #: milliseconds
    t0: Ints
    t1: Ints
    lat0: Floats
    lon0: Floats
    lat1: Floats
    lon1: Floats

    def __len__(self) -> int:
        return len(self.owner)

    def slice(self, start: int, stop: int) -> Segments:
        """Rows start to stop."""
        return Segments(*(getattr(self, name)[start:stop] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Positions:
    """Columns of positions in the order of their segments."""

    owner: Ints
    #: the tick: time in steps of the clock
    tick: Ints
    lat: Floats
    lon: Floats

    def __len__(self) -> int:
        return len(self.owner)


def ticks(segments: Segments, step_ms: int) -> tuple[Ints, Ints]:
    """First tick of each segment, and how many ticks fall into [t0, t1)."""
    first = -(-segments.t0 // step_ms)
    return first, np.maximum(-(-segments.t1 // step_ms) - first, 0)


def sample(segments: Segments, step_ms: int) -> Positions:
    """The position of every device at every tick."""
    first, count = ticks(segments, step_ms)
    row = np.repeat(np.arange(len(segments)), count)
    tick = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    span = np.maximum(segments.t1 - segments.t0, 1)
    part = (tick * step_ms - segments.t0[row]) / span[row]
    lat = segments.lat0[row] + part * (segments.lat1 - segments.lat0)[row]
    lon = segments.lon0[row] + part * lon_step(segments.lon0, segments.lon1)[row]
    return Positions(segments.owner[row], tick, lat, lon)


def chunks(segments: Segments, step_ms: int, size: int = CHUNK) -> Iterator[Segments]:
    """Cut segments into runs of about `size` positions each."""
    _first, count = ticks(segments, step_ms)
    block = (np.cumsum(count) - 1) // size
    edges = np.flatnonzero(np.diff(block)) + 1
    start = 0
    for stop in [*edges.tolist(), len(segments)]:
        if stop > start:
            yield segments.slice(start, stop)
        start = stop
