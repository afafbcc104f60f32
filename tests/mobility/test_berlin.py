"""The real ring: hand-overs as published with the data, and a trace that holds together from end to end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from godwit.mobility import grid
from godwit.mobility.attach import TowerIndex
from godwit.mobility.geo import pack, to_xyz
from godwit.mobility.gtfs import Slot, calls, clock_ms, open_feed
from godwit.mobility.handovers import attachment_changes, count_positions
from godwit.mobility.legs import segments
from godwit.mobility.nebula import read_nebula
from godwit.mobility.pipeline import Request, build
from godwit.mobility.summary import summarise
from godwit.mobility.towers import Towers, read_towers
from godwit.mobility.trace import read_trace, replay
from godwit.mobility.tracks import read_tracks
from godwit.model.changes import DeviceMoved, apply
from godwit.model.topology_file import load_topology

WINDOW_MS = 3_600_000
#: the longest trip of each line in the window, and its hand-overs at 0, 50 and 100 m
GOLDEN = {"S41-103586218": (120, 102, 90), "S42-103601966": (125, 108, 95)}


@pytest.fixture(scope="module")
def ring(spark: SparkSession, berlin: Path) -> tuple[Towers, DataFrame]:
    slot = Slot("monday", clock_ms("12:00"), clock_ms("13:00"), ("S41", "S42"))
    with open_feed(spark, berlin / "gtfs") as feed:
        stops = calls(feed, slot)
        tracks = read_tracks(spark, berlin / "track_segments.csv.gz", {})
        moves = segments(stops, WINDOW_MS, tracks, None).persist()
        moves.count()
    return read_towers(spark, berlin / "base_stations_berlin_ring.csv"), moves


@pytest.mark.parametrize(("place", "meters"), [(0, 0), (1, 50), (2, 100)])
def test_handovers_are_within_a_tenth_of_the_published(ring: tuple[Towers, DataFrame], place: int, meters: int) -> None:
    towers, moves = ring
    found = attachment_changes(towers.frame, towers.count, moves, step_ms=1000, hysteresis_m=meters)
    rows = found.where("before IS NOT NULL AND after IS NOT NULL").groupBy("device").count().collect()
    counts = {row["device"]: row["count"] for row in rows}
    for device, golden in GOLDEN.items():
        assert counts[device] == pytest.approx(golden[place], rel=0.1)
    assert len(counts) == 23  # 12 trips of each line, one of them with a single stop in the window


def test_serving_towers_thin_out_as_published(
    spark: SparkSession, berlin: Path, ring: tuple[Towers, DataFrame]
) -> None:
    """m = 6 antennas leaves 98 serving sites along the S42, 12 leaves 72, 18 leaves 36."""
    moves = ring[1].where("device = 'S42-103601966'")
    for antennas, golden in ((6, 98), (12, 72), (18, 36)):
        towers = read_towers(spark, berlin / "base_stations_berlin_ring.csv", antennas)
        found = attachment_changes(towers.frame, towers.count, moves, step_ms=1000, hysteresis_m=0)
        assert found.select(sf.count_distinct("after")).collect()[0][0] == pytest.approx(golden, rel=0.1)


def test_the_grid_join_changes_nothing(ring: tuple[Towers, DataFrame], monkeypatch: pytest.MonkeyPatch) -> None:
    """With far towers added, the join drops most of them, and every hand-over stays."""
    towers, moves = ring
    rng = np.random.default_rng(0)
    places = pack(rng.uniform(47, 55, 5000), rng.uniform(6, 15, 5000))
    far = pa.table({"id": [f"far-{i}" for i in range(5000)], "place": places})
    spark = moves.sparkSession
    many = towers.frame.unionByName(spark.createDataFrame(far)).persist()
    monkeypatch.setattr(grid, "FROM_TOWERS", 0)
    kept = grid.relevant(many, 6354, moves).count()
    assert towers.count * 0.9 < kept < towers.count + 500
    joined = _changes(many, moves)
    monkeypatch.setattr(grid, "FROM_TOWERS", 10**9)
    assert _changes(many, moves) == joined
    many.unpersist()


def _changes(towers: DataFrame, moves: DataFrame) -> list[tuple[object, ...]]:
    found = attachment_changes(towers, 6354, moves, step_ms=1000, hysteresis_m=50)
    return sorted(map(tuple, found.collect()), key=str)


def test_build_from_end_to_end(spark: SparkSession, berlin: Path, tmp_path: Path) -> None:
    slot = Slot("monday", clock_ms("12:00"), clock_ms("13:00"), ("S41", "S42"))
    request = Request(
        berlin / "base_stations_berlin_ring.csv",
        berlin / "gtfs",
        slot,
        tmp_path,
        berlin / "track_segments.csv.gz",
        hysteresis_m=0.0,
        speedup=10.0,
    )
    summary = build(spark, request)
    # README of the data: 0.44 changes a second (here ten times that), median dwell 21 s (a tenth).
    assert summary.changes_per_s == pytest.approx(4.4, rel=0.1)
    assert summary.dwell_s[1] == pytest.approx(2.1, rel=0.1)
    assert summary.rejected == {"trips": {"fewer than two stops": 1}}
    topology = load_topology(tmp_path / "topology.yaml")
    trace = read_trace(tmp_path / "trace.jsonl", topology.sites)
    same = summarise(trace)
    assert {f: getattr(same, f) for f in ("handovers", "dwell_s", "busiest_second", "serving_sites", "devices")} == {
        f: getattr(summary, f) for f in ("handovers", "dwell_s", "busiest_second", "serving_sites", "devices")
    }
    assert read_nebula(tmp_path / "nebula").trace.events == trace.events
    for event, attached in replay(trace.events):
        if event.t > 0:
            topology = apply(topology, [DeviceMoved(event.device, event.site)])
        assert topology.devices[event.device].site == attached.get(event.device)
    assert Counter(site.kind for site in topology.sites.values())["cloud"] == 1


def test_positions_are_counted(ring: tuple[Towers, DataFrame]) -> None:
    towers, moves = ring
    assert count_positions(moves, 1000) == 41_652
    index = TowerIndex.of(towers.frame.toArrow()["place"].to_numpy())
    assert len(index.places) == 1354 - 18  # 18 share a mast with another
    assert index.nearest(to_xyz(np.array([52.5]), np.array([13.4]))).shape == (1,)
