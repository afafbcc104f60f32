"""Berlin's S-Bahn ring: 27 stations, an hour around, and as many trains, lines and rings as asked for.

Station order, places and running times are those of the S42 (the S41 runs the other way). Towers are made up: along
the track at a chosen density, up to 400 m beside it. A second ring is the first one, a third larger, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from godwit.errors import ConfigError
from godwit.mobility.geo import Floats, metres
from godwit.mobility.twin import MovingWorld, StationStop, columns

#: name, latitude, longitude, seconds of running to the next station
STATIONS: tuple[tuple[str, float, float, int], ...] = (
    ("Südkreuz", 52.4755, 13.3656, 120),
    ("Tempelhof", 52.4707, 13.3858, 198),
    ("Hermannstraße", 52.4672, 13.4317, 72),
    ("Neukölln", 52.4693, 13.4437, 78),
    ("Sonnenallee", 52.4738, 13.4560, 162),
    ("Treptower Park", 52.4930, 13.4609, 102),
    ("Ostkreuz", 52.5029, 13.4691, 102),
    ("Frankfurter Allee", 52.5136, 13.4753, 96),
    ("Storkower Straße", 52.5242, 13.4649, 84),
    ("Landsberger Allee", 52.5288, 13.4559, 114),
    ("Greifswalder Straße", 52.5407, 13.4384, 90),
    ("Prenzlauer Allee", 52.5448, 13.4274, 78),
    ("Schönhauser Allee", 52.5493, 13.4151, 114),
    ("Gesundbrunnen", 52.5486, 13.3884, 114),
    ("Wedding", 52.5427, 13.3661, 120),
    ("Westhafen", 52.5362, 13.3438, 84),
    ("Beusselstraße", 52.5343, 13.3287, 132),
    ("Jungfernheide", 52.5304, 13.3001, 144),
    ("Westend", 52.5186, 13.2842, 90),
    ("Messe Nord/ICC", 52.5065, 13.2830, 72),
    ("Westkreuz", 52.5012, 13.2830, 66),
    ("Halensee", 52.4967, 13.2902, 84),
    ("Hohenzollerndamm", 52.4883, 13.3007, 96),
    ("Heidelberger Platz", 52.4794, 13.3118, 96),
    ("Bundesplatz", 52.4774, 13.3291, 78),
    ("Innsbrucker Platz", 52.4781, 13.3429, 66),
    ("Schöneberg", 52.4798, 13.3528, 90),
)
DWELL_S = 32
_BESIDE_M = 400.0
_M_PER_DEGREE = 111_195.0


@dataclass(frozen=True)
class Ring:
    """What to make."""

    trains: int = 24
    #: lines on each ring; every other one runs the other way round
    lines: int = 2
    rings: int = 1
    towers_per_km: float = 3.0
    #: length of the world in its own time
    duration_s: int = 1200
    seed: int = 7


def line_name(ring: int, line: int, lines: int) -> str:
    """S41 and S42 on the first ring, S43 and so on beyond."""
    return f"S{41 + ring * lines + line}"


def make_ring(spec: Ring | None = None) -> MovingWorld:
    """A world of trains on rings; the same seed makes the same world."""
    spec = spec or Ring()
    for name in ("trains", "lines", "rings", "duration_s"):
        if getattr(spec, name) < 1:
            msg = f"a ring needs at least one of {name}, not {getattr(spec, name)}"
            raise ConfigError(msg)
    if not spec.towers_per_km > 0:
        msg = f"towers_per_km must be more than 0, not {spec.towers_per_km}"
        raise ConfigError(msg)
    rng = np.random.default_rng(spec.seed)
    towers = [_towers(ring, spec.towers_per_km, rng) for ring in range(spec.rings)]
    ids = [f"t{ring + 1}-{i + 1:04d}" for ring, place in enumerate(towers) for i in range(len(place))]
    lat, lon = np.concatenate(towers).T
    owner, rows, calls, devices = [], [], [], []
    tracks = [(ring, line) for ring in range(spec.rings) for line in range(spec.lines)]
    for train in range(spec.trains):
        ring, line = tracks[train % len(tracks)]
        here = train // len(tracks)
        share = (here + float(rng.uniform(0, 0.5))) / -(-spec.trains // len(tracks))
        name = line_name(ring, line, spec.lines)
        device = f"{name}-{here + 1:02d}"
        devices.append(device)
        for t0, t1, a, b, station in _run(ring, line % 2 == 0, share, spec.duration_s * 1000):
            owner.append(train)
            rows.append((t0, t1, *a, *b))
            if station:
                calls.append(StationStop(device, name, station, t0))
    source = f"ring of {spec.trains} trains, {spec.rings} x {spec.lines} lines, seed {spec.seed}"
    duration = spec.duration_s * 1000
    return MovingWorld(source, duration, tuple(ids), lat, lon, tuple(devices), columns(owner, rows), tuple(calls))


def places(ring: int = 0) -> Floats:
    """Latitude and longitude of the stations of a ring, in the order of `STATIONS`."""
    at = np.array([(lat, lon) for _name, lat, lon, _run in STATIONS])
    return np.asarray(at.mean(axis=0) + (at - at.mean(axis=0)) * (1 + ring / 3))


def _towers(ring: int, per_km: float, rng: np.random.Generator) -> Floats:
    """Towers at random along the track, up to `_BESIDE_M` to either side."""
    a = places(ring)
    b = np.roll(a, -1, axis=0)
    length = metres(a[:, 0], a[:, 1], b[:, 0], b[:, 1])
    count = max(int(length.sum() / 1000 * per_km), 2)
    leg = rng.choice(len(a), count, p=length / length.sum())
    along = rng.uniform(0, 1, count)[:, None]
    beside = rng.uniform(-_BESIDE_M, _BESIDE_M, (count, 2)) / _M_PER_DEGREE
    beside[:, 1] /= np.cos(np.radians(a[leg, 0]))
    found = a[leg] * (1 - along) + b[leg] * along + beside
    return np.asarray(np.round(found, 6))


Place = tuple[float, float]


def _run(ring: int, clockwise: bool, share: float, until: int) -> Iterator[tuple[int, int, Place, Place, str]]:
    """Segments of one train from moment 0 on: (t0, t1, from, to, station it stands at or '').

    The train is `share` of the way around at moment 0; what it did before is run through and cut off.
    """
    at = [tuple(row) for row in places(ring).tolist()]
    order = list(range(len(STATIONS)))
    run_s = [STATIONS[i][3] for i in order]
    if clockwise:  # the S41: stations backwards, each leg with the time of the same track
        order = [0, *order[:0:-1]]
        run_s = [STATIONS[i][3] for i in [*order[1:], 0]]
    lap = (sum(run_s) + DWELL_S * len(order)) * 1000
    t = -int(share % 1 * lap)
    while t < until:
        for i, station in enumerate(order):
            nxt = order[(i + 1) % len(order)]
            yield from _cut(t, t + DWELL_S * 1000, at[station], at[station], until, STATIONS[station][0])
            t += DWELL_S * 1000
            yield from _cut(t, t + run_s[i] * 1000, at[station], at[nxt], until, "")
            t += run_s[i] * 1000


def _cut(
    t0: int, t1: int, a: Place, b: Place, until: int, station: str
) -> Iterator[tuple[int, int, Place, Place, str]]:
    """The part of a segment between 0 and `until`. A stop that began before 0 is no call any more."""
    start, stop = max(t0, 0), min(t1, until)
    if start >= stop:
        return

    def point(t: int) -> Place:
        part = (t - t0) / (t1 - t0)
        return (a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]))

    yield start, stop, point(start), point(stop), station if start == t0 else ""
