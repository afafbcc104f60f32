"""A made-up country of Germany's size: cities by Zipf's law, towers mostly in them, regional and local trips.

60 % of the towers stand in 200 cities, the rest anywhere. Half of the trips run from a city towards one of its four
neighbours (25 m/s, a stop every 100 s), half wander about inside one (9 m/s, a stop every 50 s). A trip takes 2,500 s,
so at a position a second 4,000 trips make 10^7 positions. All from one seed.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from godwit.mobility.geo import pack
from godwit.mobility.motion import Segments

TRIP_S = 2500
_CITIES = 200
_BOX = ((47.3, 5.9), (55.0, 15.0))
_M_PER_DEGREE = 111_195.0


@dataclass(frozen=True)
class Country:
    """Towers, and stops of trips: one row a trip, one column a stop."""

    tower_lat: np.ndarray
    tower_lon: np.ndarray
    stop_lat: np.ndarray
    stop_lon: np.ndarray
    #: seconds between two departures; the last `stand_s` of them standing
    every_s: np.ndarray
    stand_s: int = 20

    @property
    def trips(self) -> int:
        return len(self.every_s)


def make_country(towers: int, positions: int, seed: int = 11) -> Country:
    """A country with so many towers, and so many trips that they make about so many positions."""
    rng = np.random.default_rng(seed)
    cities = rng.uniform(np.array(_BOX[0]) + 0.3, np.array(_BOX[1]) - 0.3, (_CITIES, 2))
    weight = 1 / np.arange(1, _CITIES + 1)
    weight /= weight.sum()
    spread = 0.03 + 0.1 * weight / weight.max()
    lat, lon = _towers(towers, cities, weight, spread, rng)
    trips = max(positions // TRIP_S, 1)
    home = rng.choice(_CITIES, trips, p=weight)
    regional = np.arange(trips) % 2 == 0
    every = np.where(regional, 100, 50)
    stops = TRIP_S // 50 + 1
    start = cities[home] + rng.normal(0, 1, (trips, 2)) * spread[home, None] * [1.0, 1.6] * 0.3
    away = np.linalg.norm((cities[:, None] - cities[None]) * [1.0, 0.62], axis=2)
    neighbour = np.argsort(away, axis=1)[:, 1:5][home, rng.integers(0, 4, trips)]
    towards = np.arctan2(*((cities[neighbour] - cities[home]) * [1.0, 0.62]).T)
    turn = np.where(regional[:, None], rng.normal(0, 0.15, (trips, stops)), rng.uniform(-0.9, 0.9, (trips, stops)))
    heading = towards[:, None] + np.where(regional[:, None], turn, np.cumsum(turn, axis=1))
    metres = np.where(regional, 25 * 80.0, 9 * 30.0)[:, None]
    north = np.cumsum(np.sin(heading) * metres, axis=1) / _M_PER_DEGREE
    east = np.cumsum(np.cos(heading) * metres, axis=1) / _M_PER_DEGREE
    stop_lat = start[:, :1] + north
    return Country(lat, lon, stop_lat, start[:, 1:] + east / np.cos(np.radians(stop_lat)), every)


def _towers(
    count: int, cities: np.ndarray, weight: np.ndarray, spread: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    rural = int(count * 0.4)
    at = rng.choice(_CITIES, count - rural, p=weight)
    urban = cities[at] + rng.normal(0, 1, (count - rural, 2)) * spread[at, None] * [1.0, 1.6]
    place = np.concatenate((rng.uniform(*_BOX, (rural, 2)), urban))
    return np.round(place[:, 0], 6), np.round(place[:, 1], 6)


def segments(country: Country) -> Segments:
    """Run and stand, run and stand, until TRIP_S."""
    stops = TRIP_S // country.every_s  # legs of each trip
    trip = np.repeat(np.arange(country.trips), stops)
    leg = np.concatenate([np.arange(n) for n in stops])
    every = country.every_s[trip]
    t0 = leg * every * 1000
    run, stand = t0 + (every - country.stand_s) * 1000, t0 + every * 1000
    a = (country.stop_lat[trip, leg], country.stop_lon[trip, leg])
    b = (country.stop_lat[trip, leg + 1], country.stop_lon[trip, leg + 1])
    owner, start, end = (np.stack(pair, axis=1).ravel() for pair in ((trip, trip), (t0, run), (run, stand)))
    froms = [np.stack((a[i], b[i]), axis=1).ravel() for i in (0, 1)]
    tos = [np.stack((b[i], b[i]), axis=1).ravel() for i in (0, 1)]
    return Segments(owner, start, end, froms[0], froms[1], tos[0], tos[1])


def write_parquet(country: Country, folder: Path) -> None:
    """towers.parquet (id, place) and segments.parquet, as the attachment stage takes them."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = pa.array(np.arange(len(country.tower_lat))).cast(pa.string())
    # Several row groups: one would be one Spark task.
    towers = pa.table({"id": ids, "place": pack(country.tower_lat, country.tower_lon)})
    pq.write_table(towers, folder / "towers.parquet", row_group_size=500_000)
    moves = segments(country)
    names = {name: getattr(moves, name) for name in ("t0", "t1", "lat0", "lon0", "lat1", "lon1")}
    device = pa.array(moves.owner).cast(pa.string())
    pq.write_table(pa.table({"device": device, **names}), folder / "segments.parquet", row_group_size=50_000)


def write_files(country: Country, folder: Path) -> None:
    """towers.csv and gtfs/, as a user has them."""
    gtfs = folder / "gtfs"
    gtfs.mkdir(parents=True, exist_ok=True)
    ids = pa.array(np.arange(len(country.tower_lat)))
    pyarrow.csv.write_csv(
        pa.table({"id": ids, "lat": country.tower_lat, "lon": country.tower_lon}), folder / "towers.csv"
    )
    stops = TRIP_S // country.every_s + 1
    trip = np.repeat(np.arange(country.trips), stops)
    seq = np.concatenate([np.arange(n) for n in stops])
    stop = np.arange(len(trip))
    place = {"stop_lat": country.stop_lat[trip, seq], "stop_lon": country.stop_lon[trip, seq]}
    pyarrow.csv.write_csv(pa.table({"stop_id": stop, **place}), gtfs / "stops.txt")
    leave = seq * country.every_s[trip] + 8 * 3600
    came = np.maximum(leave - country.stand_s, 8 * 3600)
    clock = {"arrival_time": _clock(came), "departure_time": _clock(leave)}
    times = pa.table({"trip_id": trip, **clock, "stop_id": stop, "stop_sequence": seq})
    pyarrow.csv.write_csv(times, gtfs / "stop_times.txt")
    whole = np.arange(country.trips)
    trips = pa.table({"route_id": whole % 2, "service_id": np.zeros_like(whole), "trip_id": whole})
    pyarrow.csv.write_csv(trips, gtfs / "trips.txt")
    _small(gtfs / "routes.txt", ["route_id", "route_short_name"], [["0", "regional"], ["1", "local"]])
    days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
    _small(
        gtfs / "calendar.txt",
        ["service_id", *days, "start_date", "end_date"],
        [["0", *"1111111", "20260101", "20271231"]],
    )


def _clock(seconds: np.ndarray) -> list[str]:
    return [f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in seconds.tolist()]


def _small(path: Path, head: list[str], rows: list[list[str]]) -> None:
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([head, *rows])
