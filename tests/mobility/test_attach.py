"""The attachment rule against a plain reading of it, and the grid's promise to drop no tower that matters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.mobility.attach import TowerIndex, changes
from godwit.mobility.geo import Floats, Ints, metres, pack, to_xyz, unpack
from godwit.mobility.grid import needed
from godwit.mobility.motion import Segments, chunks, sample

STEP = 1000


def _world(seed: int, towers: int, devices: int, spread: float = 0.05) -> tuple[TowerIndex, Segments]:
    """Towers and zig-zagging devices somewhere on Earth; some stand, some start late."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(-70, 70), rng.uniform(-179, 179)
    index = TowerIndex.of(pack(lat + rng.uniform(0, spread, towers), lon + rng.uniform(0, spread, towers)))
    owner, rows = [], []
    for device in range(devices):
        t, at = int(rng.integers(0, 5000)), rng.uniform(0, spread, 2)
        for _leg in range(int(rng.integers(1, 5))):
            to = at if rng.random() < 0.2 else rng.uniform(0, spread, 2)
            end = t + int(rng.integers(1, 60_000))
            owner.append(device)
            rows.append((t, end, lat + at[0], lon + at[1], lat + to[0], lon + to[1]))
            t, at = end, to
    table = np.array(rows)
    times = table[:, :2].astype(np.int64)
    return index, Segments(np.array(owner), times[:, 0], times[:, 1], *table[:, 2:].T)


def _plainly(index: TowerIndex, moves: Segments, hysteresis: float) -> set[tuple[int, int, int, int]]:
    """The rule, read aloud: position by position, against all towers."""
    at = sample(moves, STEP)
    found, here, last = set(), -1, (-1, 0)
    for owner, tick, point in zip(at.owner.tolist(), at.tick.tolist(), to_xyz(at.lat, at.lon), strict=True):
        away = np.sqrt(((index.xyz - point) ** 2).sum(axis=1))
        near = int(away.argmin())
        if owner != last[0]:
            if last[0] >= 0:
                found.add((last[0], last[1] + 1, here, -1))
            found.add((owner, tick, -1, near))
            here = near
        elif away[near] < away[here] and away[here] - away[near] >= hysteresis:
            found.add((owner, tick, here, near))
            here = near
        last = (owner, tick)
    if last[0] >= 0:
        found.add((last[0], last[1] + 1, here, -1))
    return found


def _rows(index: TowerIndex, batches: Sequence[Segments], hysteresis: float) -> set[tuple[int, int, int, int]]:
    parts = [part for part, _count in changes(index, batches, STEP, hysteresis)]
    rows = [row for p in parts for row in zip(p.owner, p.tick, p.before, p.after, strict=True)]
    found = {tuple(map(int, row)) for row in rows}
    assert len(found) == len(rows)
    return found  # type: ignore[return-value]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    towers=st.integers(1, 60),
    devices=st.integers(1, 6),
    meters=st.sampled_from([0, 50, 400]),
)
def test_changes_are_what_the_rule_says(seed: int, towers: int, devices: int, meters: int) -> None:
    index, moves = _world(seed, towers, devices)
    assert _rows(index, [moves], meters) == _plainly(index, moves, meters)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 40), max_size=4), size=st.integers(1, 500))
def test_batches_may_be_cut_anywhere(seed: int, cuts: list[int], size: int) -> None:
    index, moves = _world(seed, 30, 5)
    edges = [0, *sorted(min(c, len(moves)) for c in cuts), len(moves)]
    batches = [moves.slice(a, b) for a, b in itertools.pairwise(edges)]
    assert _rows(index, batches, 50) == _rows(index, [moves], 50)
    parts = list(chunks(moves, STEP, size))
    together = [sample(part, STEP) for part in parts]
    whole = sample(moves, STEP)
    for name in ("owner", "tick", "lat", "lon"):
        assert np.array_equal(np.concatenate([getattr(p, name) for p in together]), getattr(whole, name))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), towers=st.integers(9, 3000), spread=st.sampled_from([0.001, 0.05, 5.0]))
def test_nearest_is_exact(seed: int, towers: int, spread: float) -> None:
    """Also where the anchor's list does not reach: the shortcut must fall back, not guess."""
    index, moves = _world(seed, towers, 4, spread)
    points = to_xyz(*(getattr(sample(moves, STEP), name) for name in ("lat", "lon")))
    away = np.sqrt(((points - index.xyz[index.nearest(points)]) ** 2).sum(axis=1))
    assert np.allclose(away, index.tree.query(points)[0], rtol=0, atol=1e-6)


def test_hysteresis_only_ever_saves_changes() -> None:
    index, moves = _world(5, 200, 20)
    counts = [len(_rows(index, [moves], h)) for h in (0, 50, 100, 200)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_towers_on_one_mast_do_not_flap() -> None:
    places = pack(np.array([52.0, 52.0, 52.01]), np.array([13.0, 13.0, 13.0]))
    assert len(TowerIndex.of(places).places) == 2


def test_ticks_and_ends() -> None:
    """Attached at the first tick on or after the start, detached at the first one after the last position."""
    one = np.array([0])
    moves = Segments(one, one + 1500, one + 4000, *(np.array([x]) for x in (52.0, 13.0, 52.0, 13.0)))
    index = TowerIndex.of(pack(np.array([52.0]), np.array([13.0])))
    assert _rows(index, [moves], 0) == {(0, 2, -1, 0), (0, 4, 0, -1)}
    too_short = Segments(one, one + 1500, one + 1900, *(np.array([x]) for x in (52.0, 13.0, 52.0, 13.0)))
    assert _rows(index, [too_short], 0) == set()


def test_a_place_survives_packing() -> None:
    rng = np.random.default_rng(0)
    lat, lon = rng.uniform(-90, 90, 1000), rng.uniform(-180, 180, 1000)
    lat[:4], lon[:4] = [90, -90, 0, 0], [180, -180, 0, 179.9999999]
    back = unpack(pack(lat, lon))
    assert np.abs(back[0] - lat).max() < 6e-8
    assert np.abs(back[1] - lon).max() < 6e-8
    assert pack(lat, lon).min() >= 0


def test_metres_are_metres() -> None:
    one = np.array([0.0])
    assert metres(one, one, one + 1, one)[0] == pytest.approx(111_194, rel=1e-4)
    assert metres(one + 60, one, one + 60, one + 1)[0] == pytest.approx(55_597, rel=1e-3)
    assert metres(one, one + 179.5, one, one - 179.5)[0] == pytest.approx(111_194, rel=1e-4)


def _cell(lat: Floats, lon: Floats) -> Ints:
    place = pack(lat, lon)
    return np.unique(((place >> 49) << 15) | ((place & (2**32 - 1)) >> 17))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    towers=st.integers(1, 400),
    spread=st.sampled_from([0.05, 0.5, 10.0]),
    lat=st.sampled_from([0.0, 52.0, 75.0]),
)
def test_the_grid_drops_no_tower_that_is_nearest(seed: int, towers: int, spread: float, lat: float) -> None:
    """Few passed cells, towers near and far: every position's nearest tower of all is among those kept."""
    rng = np.random.default_rng(seed)
    t_lat, t_lon = lat + rng.uniform(0, spread, towers), 13 + rng.uniform(0, spread, towers)
    p_lat, p_lon = (
        lat + rng.uniform(0, spread) + rng.uniform(0, 0.02, 50),
        13 + rng.uniform(0, spread) + rng.uniform(0, 0.02, 50),
    )
    kept = needed(_cell(t_lat, t_lon), _cell(p_lat, p_lon))
    place = pack(t_lat, t_lon)
    inside = np.isin(((place >> 49) << 15) | ((place & (2**32 - 1)) >> 17), kept)
    points, spots = to_xyz(p_lat, p_lon), to_xyz(t_lat, t_lon)
    away = ((points[:, None] - spots[None]) ** 2).sum(axis=2)
    assert inside[away.argmin(axis=1)].all()


def test_the_grid_drops_what_is_far() -> None:
    rng = np.random.default_rng(1)
    t_lat, t_lon = rng.uniform(47, 55, 20_000), rng.uniform(6, 15, 20_000)
    kept = needed(_cell(t_lat, t_lon), _cell(np.linspace(52.4, 52.6, 50), np.full(50, 13.4)))
    assert 0 < len(kept) < 500
    assert not len(needed(np.array([], dtype=np.int64), kept))
