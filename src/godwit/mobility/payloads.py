"""What devices send: passenger counts, position reports, sensor readings, as Arrow tables with out-of-order event time.

Every generator answers `batch(device, t0_ms, t1_ms)`: the rows of the device that *arrive* in [t0, t1), in the order of
arrival. A row arrives up to `disorder_ms` after it happened, so event times (`ts`) are out of order by at most that.
A row depends on the seed, the device and its place in the stream alone: cut time as you like, the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Protocol

import numpy as np
import pyarrow as pa

from godwit.mobility.geo import Floats, Ints, metres
from godwit.mobility.twin import MovingWorld, StationStop

TS = pa.timestamp("us", tz="UTC")
_COUNTS = [(name, pa.int32()) for name in ("coach", "boarded", "alighted", "bikes", "strollers")]
PASSENGERS = pa.schema([("train", pa.string()), ("line", pa.string()), *_COUNTS, ("station", pa.string()), ("ts", TS)])
POSITIONS = pa.schema(
    [("device", pa.string()), ("lat", pa.float64()), ("lon", pa.float64()), ("speed", pa.float64()), ("ts", TS)]
)
READINGS = pa.schema([("sensor", pa.string()), ("value", pa.float64()), ("ts", TS)])

SEATS_A_COACH = 60
_DRAWS = 4  # Philox makes four numbers a count, so a row owns one count


class Payload(Protocol):
    """A stream of rows for each device."""

    schema: pa.Schema

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        """The rows of a device that arrive in [t0, t1)."""


def _key(seed: int, *names: str) -> Ints:
    digest = blake2b("\x1f".join((str(seed), *names)).encode(), digest_size=16).digest()
    return np.frombuffer(digest, dtype=np.uint64)


def draws(seed: int, device: str, first: int, count: int) -> Floats:
    """Four random numbers in [0, 1) for each of the rows `first` ... `first + count` of a device's stream."""
    rng = np.random.Generator(np.random.Philox(key=_key(seed, device), counter=first))
    return rng.random((count, _DRAWS))


def _stamp(start_ms: int, t: Ints | Floats) -> pa.Array:
    return pa.array(((np.asarray(t) + start_ms) * 1000).astype("datetime64[us]")).cast(TS)


def _arriving(table: pa.Table, arrival: Ints, t0_ms: int, t1_ms: int) -> pa.Table:
    rows = np.flatnonzero((arrival >= t0_ms) & (arrival < t1_ms))
    return table.take(pa.array(rows[np.argsort(arrival[rows], kind="stable")]))


@dataclass(frozen=True)
class Passengers:
    """Counts at the doors: one row a coach at every stop. Only passengers who got on get off."""

    calls: Iterable[StationStop]
    coaches: int = 8
    seed: int = 7
    disorder_ms: int = 2000
    #: epoch milliseconds of moment 0
    start_ms: int = 0
    schema: pa.Schema = field(default=PASSENGERS, repr=False)

    @cached_property
    def _by_device(self) -> dict[str, list[StationStop]]:
        found: dict[str, list[StationStop]] = {}
        for call in sorted(self.calls, key=lambda call: call.t):
            found.setdefault(call.device, []).append(call)
        return found

    @cached_property
    def _made(self) -> dict[str, tuple[pa.Table, Ints]]:
        return {}

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        """Counts of one train that arrive in [t0, t1)."""
        if device not in self._made:
            self._made[device] = self._make(device)
        return _arriving(*self._made[device], t0_ms, t1_ms)

    def _make(self, device: str) -> tuple[pa.Table, Ints]:
        """All the counts of a train and when they arrive: a day's worth is a few thousand rows."""
        calls, n = self._by_device.get(device, []), self.coaches
        u = draws(self.seed, device, 0, len(calls) * n * 2).reshape(len(calls), n, 2 * _DRAWS)
        counts = self._counts(u)
        t = np.repeat(np.array([call.t for call in calls], dtype=np.int64), n)
        t = t + (u[..., 6].ravel() * 5000).astype(np.int64)  # doors close one after the other
        arrival = t + (u[..., 7].ravel() * self.disorder_ms).astype(np.int64)
        table = pa.table(
            [
                pa.array([device] * len(t), pa.string()),
                pa.array(np.repeat([call.line for call in calls], n).tolist(), pa.string()),
                pa.array(np.tile(np.arange(1, n + 1, dtype=np.int32), len(calls))),
                *(pa.array(column.ravel().astype(np.int32)) for column in counts),
                pa.array(np.repeat([call.station for call in calls], n).tolist(), pa.string()),
                _stamp(self.start_ms, t),
            ],
            schema=self.schema,
        )
        return table, arrival

    def _counts(self, u: Floats) -> tuple[Ints, Ints, Ints, Ints]:
        """boarded, alighted, bikes, strollers: call by call, since who gets off must be on board."""
        shape = u.shape[:2]
        boarded, alighted = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        aboard = np.zeros(shape[1], dtype=np.int64)
        for row in range(shape[0]):
            alighted[row] = (aboard * u[row, :, 0] * 0.6).astype(np.int64)
            room = 2 * SEATS_A_COACH - aboard + alighted[row]
            boarded[row] = np.minimum((-8.0 * np.log1p(-u[row, :, 1])).astype(np.int64), room)
            aboard += boarded[row] - alighted[row]
        return (
            boarded,
            alighted,
            (u[..., 2] * u[..., 3] * 4).astype(np.int64),
            (u[..., 4] * u[..., 5] * 3).astype(np.int64),
        )


@dataclass(frozen=True)
class PositionReports:
    """Where each device of a world is, every `period_ms`, with a few metres of error."""

    world: MovingWorld
    period_ms: int = 1000
    error_m: float = 5.0
    seed: int = 7
    disorder_ms: int = 2500
    #: how many times faster than the world the reports are sent
    speedup: float = 1.0
    start_ms: int = 0
    schema: pa.Schema = field(default=POSITIONS, repr=False)

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int]]:
        """device -> its rows in the world's segments"""
        owner, numbers = self.world.segments.owner, np.arange(len(self.world.devices))
        first, last = np.searchsorted(owner, numbers), np.searchsorted(owner, numbers, side="right")
        return {d: (int(first[i]), int(last[i])) for i, d in enumerate(self.world.devices)}

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        """Reports of one device that arrive in [t0, t1)."""
        first = max((t0_ms - self.disorder_ms) // self.period_ms, 0)
        t, u = _row_times(self.seed, device, first, t1_ms, self.period_ms)
        segments = self.world.segments.slice(*self._rows.get(device, (0, 0)))
        when = t * self.speedup
        row = np.searchsorted(segments.t0, when, side="right") - 1
        here = (row >= 0) & (when < segments.t1[np.maximum(row, 0)]) if len(segments) else np.zeros(len(t), dtype=bool)
        t, u, row, when = t[here], u[here], row[here], when[here]
        part = (when - segments.t0[row]) / np.maximum(segments.t1[row] - segments.t0[row], 1)
        error = (u[:, :2] - 0.5) * 2 * self.error_m / 111_195
        lat = segments.lat0[row] + part * (segments.lat1 - segments.lat0)[row] + error[:, 0]
        lon = segments.lon0[row] + part * (segments.lon1 - segments.lon0)[row]
        lon = lon + error[:, 1] / np.cos(np.radians(lat))
        way = metres(segments.lat0[row], segments.lon0[row], segments.lat1[row], segments.lon1[row])
        speed = way * 1000 / np.maximum(segments.t1[row] - segments.t0[row], 1)
        columns = [pa.array([device] * len(t), pa.string()), lat, lon, speed, _stamp(self.start_ms, t)]
        arrival = t + (u[:, 2] * self.disorder_ms).astype(np.int64)
        return _arriving(pa.table(columns, schema=self.schema), arrival, t0_ms, t1_ms)


@dataclass(frozen=True)
class SensorReadings:
    """A daily wave around each sensor's own level, with noise and now and then a spike."""

    period_ms: int = 1000
    seed: int = 7
    disorder_ms: int = 3000
    start_ms: int = 0
    spike_share: float = 0.001
    schema: pa.Schema = field(default=READINGS, repr=False)

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        """Readings of one sensor that arrive in [t0, t1)."""
        first = max((t0_ms - self.disorder_ms) // self.period_ms, 0)
        t, u = _row_times(self.seed, device, first, t1_ms, self.period_ms)
        level = 15 + 10 * draws(self.seed, f"level of {device}", 0, 1)[0, 0]
        wave = 5 * np.sin(2 * np.pi * (t + self.start_ms) / 86_400_000)
        value = level + wave + (u[:, 0] + u[:, 1] - 1) + np.where(u[:, 2] < self.spike_share, 40.0, 0.0)
        columns = [pa.array([device] * len(t), pa.string()), value, _stamp(self.start_ms, t)]
        arrival = t + (u[:, 3] * self.disorder_ms).astype(np.int64)
        return _arriving(pa.table(columns, schema=self.schema), arrival, t0_ms, t1_ms)


def _row_times(seed: int, device: str, first: int, t1_ms: int, period_ms: int) -> tuple[Ints, Floats]:
    """Event times of the rows from `first` on that happen before t1, and their random numbers."""
    count = max(-(-t1_ms // period_ms) - first, 0)
    return (first + np.arange(count, dtype=np.int64)) * period_ms, draws(seed, device, first, count)
