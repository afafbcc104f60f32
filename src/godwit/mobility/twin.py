"""What the synthetic worlds share: towers, moving devices and their stops, and how they become a trace and a topology.

A world is written in its own time. `play` speeds it up and looks at it through the same attachment rule as the
pipeline on Spark, so a synthetic trace and a real one differ in nothing but their source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from godwit.errors import ConfigError, DataError
from godwit.mobility.attach import TowerIndex, changes
from godwit.mobility.geo import Floats, pack
from godwit.mobility.hierarchy import Hierarchy, build_topology
from godwit.mobility.motion import Segments, sample
from godwit.mobility.trace import Trace, TraceEvent, check, ordered
from godwit.model.topology import Topology

STEP_MS = 1000


@dataclass(frozen=True, slots=True)
class StationStop:
    """A train stands at a station."""

    device: str
    line: str
    station: str
    #: milliseconds in the world's own time
    t: int


def write_calls(calls: Iterable[StationStop], path: Path) -> None:
    """calls.jsonl: one stop a line."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(call), ensure_ascii=False) + "\n" for call in calls)


def read_calls(path: Path) -> tuple[StationStop, ...]:
    """The stops of a trace, for the payload generators."""
    with path.open(encoding="utf-8") as lines:
        return tuple(_call(path, i, line) for i, line in enumerate(lines, start=1))


def _call(path: Path, number: int, line: str) -> StationStop:
    try:
        return StationStop(**json.loads(line))
    except (ValueError, TypeError) as error:
        msg = f"{path}: line {number}: not a stop ({error}); a stop has device, line, station and t"
        raise DataError(msg) from error


@dataclass(frozen=True)
class MovingWorld:
    """Devices that move among towers."""

    #: for a reader's eyes: what it is and its seed
    source: str
    #: how long it is, in its own time
    duration_ms: int
    tower_ids: tuple[str, ...]
    tower_lat: Floats
    tower_lon: Floats
    #: device of each owner number in `segments`
    devices: tuple[str, ...]
    segments: Segments
    calls: tuple[StationStop, ...] = ()

    def positions(self, t_ms: int) -> dict[str, tuple[float, float]]:
        """Where all devices are at one moment of the world: device -> (latitude, longitude)."""
        now = (self.segments.t0 <= t_ms) & (t_ms < self.segments.t1)
        rows = np.flatnonzero(now)
        moment = Segments(*(getattr(self.segments, f)[rows] for f in Segments.__dataclass_fields__))
        shifted = Segments(moment.owner, moment.t0 - t_ms, moment.t1 - t_ms, *_places(moment))
        # A clock whose only tick inside any segment is this moment.
        at = sample(shifted, int(self.duration_ms) + 1)
        return {self.devices[o]: (float(la), float(lo)) for o, la, lo in zip(at.owner, at.lat, at.lon, strict=True)}


def _places(s: Segments) -> tuple[Floats, Floats, Floats, Floats]:
    return s.lat0, s.lon0, s.lat1, s.lon1


@dataclass(frozen=True)
class Played:
    """A world as the engine sees it."""

    trace: Trace
    topology: Topology
    world: MovingWorld
    #: the stops in the trace's time
    calls: tuple[StationStop, ...]


def play(
    world: MovingWorld, *, speedup: float = 1.0, hysteresis_m: float = 50.0, shape: Hierarchy | None = None
) -> Played:
    """The trace of a world, `speedup` times faster, and the topology under it (serving towers only)."""
    check_speedup(speedup)
    index = TowerIndex.of(pack(world.tower_lat, world.tower_lon))
    found = list(changes(index, [world.segments], STEP_MS, hysteresis_m))
    name = _names(index, world)
    events = [
        event
        for part, _positions in found
        for row in zip(part.owner, part.tick, part.before, part.after, strict=True)
        if (event := _event(row, name, world, speedup)) is not None
    ]
    duration = int(world.duration_ms / speedup)
    trace = check(Trace(duration, ordered(events), speedup, world.source), world.tower_ids)
    calls = tuple(StationStop(c.device, c.line, c.station, int(c.t / speedup)) for c in world.calls)
    return Played(trace, _topology(world, trace, shape), world, calls)


def check_speedup(speedup: float) -> None:
    """Refuse what would squeeze two ticks into one millisecond."""
    if not 0 < speedup <= STEP_MS:
        msg = f"speedup must be more than 0 and at most {STEP_MS}, not {speedup}"
        raise ConfigError(msg)


def _names(index: TowerIndex, world: MovingWorld) -> list[str]:
    """Tower names by index number; of towers at one place the first by name stands for all."""
    place = pack(world.tower_lat, world.tower_lon)
    order = np.lexsort((np.array(world.tower_ids), place))
    first = order[np.searchsorted(place[order], index.places)]
    return [world.tower_ids[i] for i in first]


def _event(
    row: tuple[np.int64, np.int64, np.int64, np.int64], name: Sequence[str], world: MovingWorld, speedup: float
) -> TraceEvent | None:
    """One change as an event; None for a detach only because the world ends."""
    owner, tick, before, after = map(int, row)
    if after < 0 and tick * STEP_MS >= world.duration_ms:
        return None
    kind = "attach" if before < 0 else "detach" if after < 0 else "handover"
    site, previous = (None if tower < 0 else name[tower] for tower in (after, before))
    return TraceEvent(int(tick * STEP_MS / speedup), world.devices[owner], kind, site, previous)  # type: ignore[arg-type]


def _topology(world: MovingWorld, trace: Trace, shape: Hierarchy | None) -> Topology:
    rank = {name: i for i, name in enumerate(world.tower_ids)}
    rows = np.array([rank[site] for site in trace.sites], dtype=np.int64)
    start = trace.initial()
    devices = {device: start.get(device) for device in trace.devices}
    return build_topology(trace.sites, world.tower_lat[rows], world.tower_lon[rows], devices, shape)


def columns(owner: Sequence[int], rows: Sequence[tuple[float, float, float, float, float, float]]) -> Segments:
    """Segments from rows of (t0, t1, lat0, lon0, lat1, lon1)."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    t0, t1 = (np.rint(table[:, i]).astype(np.int64) for i in (0, 1))
    lat0, lon0, lat1, lon1 = (table[:, i].copy() for i in range(2, 6))
    return Segments(np.array(owner, dtype=np.int64), t0, t1, lat0, lon0, lat1, lon1)
