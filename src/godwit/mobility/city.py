"""Cars in a city of square blocks: random way-points, driven along the streets; towers on a grid, a little shaken.

A car picks a crossing, drives there first along one street, then along the other, waits, and picks the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from godwit.errors import ConfigError
from godwit.mobility.twin import MovingWorld, columns

_M_PER_DEGREE = 111_195.0


@dataclass(frozen=True)
class City:
    """What to make."""

    cars: int = 100
    #: crossings along each side
    crossings: int = 40
    block_m: float = 120.0
    tower_every_m: float = 450.0
    #: metres a second, slowest and fastest car
    speed: tuple[float, float] = (6.0, 14.0)
    max_wait_s: int = 60
    duration_s: int = 1200
    #: the south-west corner
    lat: float = 52.50
    lon: float = 13.30
    seed: int = 7


def make_city(spec: City | None = None) -> MovingWorld:
    """A world of cars; the same seed makes the same world."""
    spec = spec or City()
    if spec.cars < 1 or spec.crossings < 2 or spec.duration_s < 1 or not 0 < spec.speed[0] <= spec.speed[1]:
        msg = f"a city needs a car, two crossings a side, a second of time and a speed, not {spec}"
        raise ConfigError(msg)
    rng = np.random.default_rng(spec.seed)
    side = (spec.crossings - 1) * spec.block_m
    grid = np.arange(spec.tower_every_m / 2, side + spec.tower_every_m / 2, spec.tower_every_m)
    spot = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    spot = spot + rng.uniform(-0.3, 0.3, spot.shape) * spec.tower_every_m
    owner, rows = [], []
    for car in range(spec.cars):
        for t0, t1, a, b in _drive(spec, rng):
            owner.append(car)
            rows.append((t0, t1, *_degrees(spec, a), *_degrees(spec, b)))
    lat, lon = np.array([_degrees(spec, (x, y)) for x, y in spot]).T
    ids = tuple(f"c-{i + 1:04d}" for i in range(len(spot)))
    devices = tuple(f"car-{i + 1:04d}" for i in range(spec.cars))
    source = f"city of {spec.cars} cars, seed {spec.seed}"
    return MovingWorld(
        source, spec.duration_s * 1000, ids, np.round(lat, 6), np.round(lon, 6), devices, columns(owner, rows)
    )


Spot = tuple[float, float]


def _drive(spec: City, rng: np.random.Generator) -> Iterator[tuple[float, float, Spot, Spot]]:
    """Segments of one car, in metres east and north of the corner."""
    here = _crossing(spec, rng)
    speed = rng.uniform(*spec.speed)
    t, until = 0.0, spec.duration_s * 1000.0
    while t < until:
        goal = _crossing(spec, rng)
        corner = (goal[0], here[1])
        wait = rng.uniform(0, spec.max_wait_s) * 1000
        for a, b, took in ((here, here, wait), (here, corner, None), (corner, goal, None)):
            if took is None:
                took = (abs(a[0] - b[0]) + abs(a[1] - b[1])) / speed * 1000
            if took >= 1 and t < until:
                stop = min(t + took, until)
                part = (stop - t) / took
                yield t, stop, a, (a[0] + part * (b[0] - a[0]), a[1] + part * (b[1] - a[1]))
            t += took
        here = goal


def _crossing(spec: City, rng: np.random.Generator) -> Spot:
    x, y = rng.integers(0, spec.crossings, 2) * spec.block_m
    return float(x), float(y)


def _degrees(spec: City, spot: Spot) -> Spot:
    return spec.lat + spot[1] / _M_PER_DEGREE, spec.lon + spot[0] / _M_PER_DEGREE / float(np.cos(np.radians(spec.lat)))
