"""Payloads: the same rows however time is cut, out of order by no more than promised, and nobody gets off unboarded."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.mobility.payloads import (
    PASSENGERS,
    Passengers,
    Payload,
    PositionReports,
    SensorReadings,
    draws,
)
from godwit.mobility.ring import Ring, make_ring
from godwit.mobility.twin import play

PLAYED = play(make_ring(Ring(trains=4, duration_s=1800)))
SOURCES: dict[str, tuple[Payload, str]] = {
    "passengers": (Passengers(PLAYED.calls), "S41-01"),
    "positions": (PositionReports(PLAYED.world, period_ms=700), "S42-02"),
    "fast positions": (PositionReports(PLAYED.world, speedup=10), "S42-02"),
    "readings": (SensorReadings(period_ms=250), "sensor-0001"),
}
END = 400_000


@pytest.mark.parametrize("kind", SOURCES)
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, END), max_size=8))
def test_time_may_be_cut_anywhere(kind: str, cuts: list[int]) -> None:
    source, device = SOURCES[kind]
    edges = [0, *sorted(cuts), END]
    parts = [source.batch(device, a, b) for a, b in pairwise(edges)]
    whole = source.batch(device, 0, END)
    assert pa.concat_tables(parts).equals(whole)
    assert whole.num_rows > 0
    assert whole.schema == source.schema


@pytest.mark.parametrize("kind", SOURCES)
def test_disorder_is_there_and_bounded(kind: str) -> None:
    source, device = SOURCES[kind]
    ts = source.batch(device, 0, END)["ts"].cast(pa.int64()).to_numpy() // 1000
    late = np.maximum.accumulate(ts) - ts
    assert 0 < late.max() <= source.disorder_ms  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", SOURCES)
def test_seeds_and_devices_differ_and_repeat(kind: str) -> None:
    source, device = SOURCES[kind]
    again = type(source)(**{n: getattr(source, n) for n in source.__dataclass_fields__})  # type: ignore[attr-defined]
    assert again.batch(device, 0, END).equals(source.batch(device, 0, END))
    fields = {n: getattr(source, n) for n in source.__dataclass_fields__} | {"seed": 8}  # type: ignore[attr-defined]
    assert not type(source)(**fields).batch(device, 0, END).equals(source.batch(device, 0, END))
    assert source.batch("nobody", 0, END).schema == source.schema


def test_nobody_gets_off_who_did_not_get_on() -> None:
    rows = SOURCES["passengers"][0].batch("S41-01", 0, 10**9)
    assert rows.schema == PASSENGERS
    assert set(rows["coach"].to_pylist()) == set(range(1, 9))
    for coach in range(1, 9):
        one = rows.filter(pc.equal(rows["coach"], coach)).sort_by("ts")
        aboard = np.cumsum(one["boarded"].to_numpy() - one["alighted"].to_numpy())
        assert aboard.min() >= 0
        assert aboard.max() <= 120
        assert one["boarded"].to_numpy().sum() > 0
    stops = {call.station for call in PLAYED.calls if call.device == "S41-01"}
    assert set(rows["station"].to_pylist()) == stops


def test_a_position_is_near_where_the_train_is() -> None:
    rows = PositionReports(PLAYED.world, error_m=0.0).batch("S41-01", 0, 60_000).to_pylist()
    for row in rows:
        t = int(row["ts"].timestamp() * 1000)
        lat, lon = PLAYED.world.positions(t)["S41-01"]
        assert (row["lat"], row["lon"]) == pytest.approx((lat, lon), abs=1e-9)


def test_draws_do_not_depend_on_where_one_starts() -> None:
    whole = draws(1, "d", 0, 100)
    assert np.array_equal(draws(1, "d", 37, 20), whole[37:57])
    assert whole.min() >= 0
    assert 0.4 < whole.mean() < 0.6
    assert not np.array_equal(draws(1, "e", 0, 100), whole)


def test_start_is_the_epoch_of_moment_zero() -> None:
    rows = SensorReadings(start_ms=1_700_000_000_000).batch("s", 0, 10_000)
    assert rows["ts"][0].as_py().timestamp() == pytest.approx(1_700_000_000, abs=10)
