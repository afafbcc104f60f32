"""A field of sensors that never move, over scattered gateways: the world in which only rates and sites change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from godwit.errors import ConfigError
from godwit.mobility.twin import MovingWorld, columns

_M_PER_DEGREE = 111_195.0


@dataclass(frozen=True)
class Field:
    """What to make."""

    sensors: int = 200
    gateways: int = 12
    side_m: float = 5_000.0
    duration_s: int = 1200
    #: the south-west corner
    lat: float = 52.30
    lon: float = 13.00
    seed: int = 7


def make_field(spec: Field | None = None) -> MovingWorld:
    """A world of standing sensors; the same seed makes the same world."""
    spec = spec or Field()
    if min(spec.sensors, spec.gateways, spec.duration_s) < 1 or not spec.side_m > 0:
        msg = f"a field needs a sensor, a gateway, a second of time and a side, not {spec}"
        raise ConfigError(msg)
    rng = np.random.default_rng(spec.seed)
    spots = rng.uniform(0, spec.side_m, (spec.sensors + spec.gateways, 2)) / _M_PER_DEGREE
    lat = np.round(spec.lat + spots[:, 0], 6)
    lon = np.round(spec.lon + spots[:, 1] / np.cos(np.radians(spec.lat)), 6)
    duration = spec.duration_s * 1000
    rows = [(0, duration, lat[i], lon[i], lat[i], lon[i]) for i in range(spec.sensors)]
    gateways = tuple(f"g-{i + 1:03d}" for i in range(spec.gateways))
    sensors = tuple(f"sensor-{i + 1:04d}" for i in range(spec.sensors))
    source = f"field of {spec.sensors} sensors, seed {spec.seed}"
    still = columns(range(spec.sensors), rows)
    return MovingWorld(source, duration, gateways, lat[spec.sensors :], lon[spec.sensors :], sensors, still)
