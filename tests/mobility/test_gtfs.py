"""Timetables, clean and dirty, through the whole pipeline: feeds so small that every event can be told in advance."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from godwit.errors import ConfigError, DataError
from godwit.mobility.gtfs import Slot, calls, clock_ms, open_feed, weekday
from godwit.mobility.handovers import attachment_changes
from godwit.mobility.nebula import read_nebula
from godwit.mobility.pipeline import Request, build, timetable
from godwit.mobility.summary import Summary, summarise
from godwit.mobility.towers import read_towers
from godwit.mobility.trace import Trace, read_trace
from godwit.mobility.tracks import lay
from godwit.mobility.twin import read_calls
from godwit.model.topology_file import load_topology

from .feeds import DAYS, GOOD, write_feed, write_towers, zip_feed


def _slot(a: str = "12:00", b: str = "13:00", day: str = "monday", lines: tuple[str, ...] = ()) -> Slot:
    return Slot(day, clock_ms(a), clock_ms(b), lines)


def _build(spark: SparkSession, folder: Path, gtfs: Path, slot: Slot, **options: Any) -> tuple[Summary, Trace]:
    request = Request(write_towers(folder), gtfs, slot, folder / "out", **({"hysteresis_m": 0.0} | options))
    summary = build(spark, request)
    topology = load_topology(folder / "out" / "topology.yaml")
    return summary, read_trace(folder / "out" / "trace.jsonl", topology.sites)


def _calls(spark: SparkSession, gtfs: Path, slot: Slot) -> tuple[list[tuple[Any, ...]], dict[str, dict[str, int]]]:
    with open_feed(spark, gtfs) as feed:
        rows = calls(feed, slot).orderBy("device", "leg").collect()
        return [(r["device"], r["stop_id"], r["arrive"] // 1000, r["depart"] // 1000) for r in rows], feed.rejected


def test_every_event_of_a_small_timetable(spark: SparkSession, tmp_path: Path) -> None:
    """t1's stop times are out of order and t2 is a loop; half way between two towers the next one takes over."""
    summary, trace = _build(spark, tmp_path, write_feed(tmp_path), _slot())
    assert [(e.t // 1000, e.device, e.kind, e.site, e.previous) for e in trace.events] == [
        (0, "S1-t1", "attach", "a", None),
        (76, "S1-t1", "handover", "b", "a"),
        (196, "S1-t1", "handover", "c", "b"),
        (240, "S1-t1", "detach", None, "c"),
        (600, "S2-t2", "attach", "a", None),
        (662, "S2-t2", "handover", "b", "a"),
        (795, "S2-t2", "handover", "a", "b"),
        (840, "S2-t2", "detach", None, "a"),
    ]
    assert summary == Summary(**(summarise(trace).__dict__ | {"positions": 480, "rejected": {}}))
    assert read_nebula(tmp_path / "out" / "nebula").trace.events == trace.events
    stops = read_calls(tmp_path / "out" / "calls.jsonl")
    assert [(c.line, c.station, c.t // 1000) for c in stops if c.device == "S1-t1"] == [
        ("S1", "Alpha", 0),
        ("S1", "Beta", 120),
        ("S1", "Gamma", 240),
    ]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["handovers"] == 4


def test_a_window_cuts_trips(spark: SparkSession, tmp_path: Path) -> None:
    """From 12:01 to 12:03, twice as fast: t1 is under way at both ends, so it is there at 0 and never leaves."""
    summary, trace = _build(spark, tmp_path, write_feed(tmp_path), _slot("12:01", "12:03"), speedup=2.0)
    assert [(e.t, e.kind, e.site) for e in trace.events] == [(0, "attach", "a"), (8000, "handover", "b")]
    assert trace.duration_ms == 60_000
    assert load_topology(tmp_path / "out" / "topology.yaml").devices["S1-t1"].site == "a"
    assert summary.positions == 120


def test_zip_and_hysteresis_and_lines(spark: SparkSession, tmp_path: Path) -> None:
    archive = zip_feed(write_feed(tmp_path), below="feed/")
    _summary, trace = _build(spark, tmp_path, archive, _slot(lines=("S2",)), hysteresis_m=100.0)
    # 100 m nearer to b than to a is 50 m past the middle, 395 m from A at 5.64 m/s.
    assert [(e.device, e.t // 1000, e.kind) for e in trace.events][:2] == [
        ("S2-t2", 600, "attach"),
        ("S2-t2", 671, "handover"),
    ]
    assert not (tmp_path.parent / "evil.txt").exists()


def test_past_midnight_frequencies_and_dates(spark: SparkSession, tmp_path: Path) -> None:
    times = GOOD["stop_times"] + "t3,23:58:00,23:58:00,A,1\nt3,24:10:00,24:10:00,D,2\n"
    trips = GOOD["trips"] + "r1,week,t3\nr1,once,t4\n"
    times += "t4,12:00:00,12:00:00,A,1\nt4,12:05:00,12:05:00,B,2\n"
    dates = "service_id,date,exception_type\nonce,20261116,1\nweek,20261117,2\n"
    often = "trip_id,start_time,end_time,headway_secs\nt4,12:00:00,12:30:00,600\nt4,x,12:30:00,600\n"
    gtfs = write_feed(tmp_path, stop_times=times, trips=trips, calendar_dates=dates, frequencies=often)
    monday, rejected = _calls(spark, gtfs, _slot("12:00", "13:00", "2026-11-16"))
    assert rejected == {"frequencies": {"no usable times or headway": 1}}
    runs = sorted({row[0] for row in monday})
    assert runs == ["S1-t1", "S1-t4@43200", "S1-t4@43800", "S1-t4@44400", "S2-t2"]
    assert [row for row in monday if row[0] == "S1-t4@43800"] == [
        ("S1-t4@43800", "A", 600, 600),
        ("S1-t4@43800", "B", 900, 900),
    ]
    tuesday, _ = _calls(spark, gtfs, _slot("00:00", "13:00", "2026-11-17"))
    assert tuesday == [("S1-t3~eve", "A", -120, -120), ("S1-t3~eve", "D", 600, 600)]
    late, _ = _calls(spark, gtfs, _slot("24:00", "24:30", "2026-11-16"))
    assert late == [("S1-t3", "A", -120, -120), ("S1-t3", "D", 600, 600)]


def test_dirty_rows_are_counted_by_reason(spark: SparkSession, tmp_path: Path) -> None:
    trips = GOOD["trips"] + "r1,week,back\nr1,week,alone\nr1,week,gap\n"
    times = GOOD["stop_times"] + (
        "back,12:10:00,12:10:00,A,1\nback,12:05:00,12:05:00,B,2\n"
        "alone,12:10:00,12:10:00,A,1\n"
        "gap,12:20:00,12:20:00,A,1\ngap,,,B,2\ngap,12:22:00,,C,3\ngap,25:99:00,x,D,4\n"
        "gap,12:23:00,12:23:00,nowhere,5\ngap,12:23:00,12:23:00,E,6\ngap,12:24:00,12:24:00,D,last\n"
    )
    stops = GOOD["stops"] + "E,Swapped,213.4,52.5\nA,Alpha again,52.5,13.4\nF,Empty,,\n"
    found, rejected = _calls(spark, write_feed(tmp_path, trips=trips, stop_times=times, stops=stops), _slot())
    assert rejected == {
        "stops": {"coordinates missing, swapped or off the globe": 2, "stop_id seen before": 1},
        "stop_times": {
            "stop_sequence is not a number": 1,
            "no usable time (passed through)": 2,
            "stop unknown or without coordinates": 2,
        },
        "trips": {"times go backwards": 1, "fewer than two stops": 1},
    }
    assert [row[1:] for row in found if row[0] == "S1-gap"] == [("A", 1200, 1200), ("C", 1320, 1320)]
    assert {row[0] for row in found} == {"S1-t1", "S2-t2", "S1-gap"}


@pytest.mark.parametrize("table", ["routes", "trips", "stops", "stop_times"])
def test_a_missing_file_is_named(spark: SparkSession, tmp_path: Path, table: str) -> None:
    with pytest.raises(DataError, match=f"{table}.txt is missing or empty; a timetable needs it"):
        _calls(spark, write_feed(tmp_path, **{table: None}), _slot())


def test_what_cannot_be_answered(spark: SparkSession, tmp_path: Path) -> None:
    gtfs = write_feed(tmp_path)
    with pytest.raises(DataError, match=r"no line S9; it has, among others, S1, S2"):
        _calls(spark, gtfs, _slot(lines=("S1", "S9")))
    with pytest.raises(DataError, match="no trip of any line runs on 2027-01-04; choose another --day"):
        _calls(spark, gtfs, _slot(day="2027-01-04"))
    with pytest.raises(DataError, match="no trip moves between --from and --to on monday"):
        _build(spark, tmp_path, gtfs, _slot("15:00", "16:00"))
    with pytest.raises(DataError, match=r"stops.txt has no column stop_lon; its columns are stop_id, stop_lat"):
        _calls(spark, write_feed(tmp_path / "2", stops="stop_id,stop_lat\nA,1\n"), _slot())
    with pytest.raises(DataError, match=r"has no calendar.txt, so a weekday says nothing; give --day as a date"):
        _calls(spark, write_feed(tmp_path / "3", calendar=None), _slot())
    with pytest.raises(DataError, match="there is no such folder or zip"):
        _calls(spark, tmp_path / "none", _slot())
    broken = tmp_path / "towers.csv.gz"
    broken.write_bytes(gzip.compress(b"id,lat,lon\n" + b"a,52.5,13.4\n" * 5000)[:-20])
    with pytest.raises(DataError, match=r"Spark could not read .*towers.csv.gz"):
        build(spark, Request(broken, gtfs, _slot(), tmp_path / "out"))
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(DataError, match="is neither a folder nor a zip"):
        _calls(spark, tmp_path / "no.zip", _slot())


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: _slot("13:00", "12:00"), "the window is empty"),
        (lambda: _slot("12:00", "12:00"), "the window is empty"),
        (lambda: _slot("noon"), "'noon' is not a time of day"),
        (lambda: _slot("12:75"), "not a time of day"),
        (lambda: _slot(day="someday"), "neither a weekday"),
        (lambda: Request(Path(), Path(), _slot(), Path(), hysteresis_m=-1), "--hysteresis must be 0 or more"),
        (lambda: Request(Path(), Path(), _slot(), Path(), speedup=0), "speedup"),
    ],
)
def test_questions_that_make_no_sense(ask: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ask()


def test_days_and_clocks() -> None:
    assert weekday("Friday") == ("friday", None)
    assert weekday("2026-11-15")[0] == "sunday"
    assert clock_ms("25:00:01") == 90_001_000


def test_tracks_and_shapes_lead_the_way(spark: SparkSession, tmp_path: Path) -> None:
    """A to B by a detour in the north, where tower n is; by shapes.txt and by given polylines."""
    (tmp_path / "towers.csv").write_text("id,lat,lon\na,52.5,13.40\nb,52.5,13.41\nc,52.5,13.42\nn,52.51,13.405\n")
    shape = "shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence\n"
    shape += "s,52.5,13.41,4\ns,52.51,13.40,2\ns,52.5,13.40,1\ns,52.51,13.41,3\ns,x,13.42,5\ns,52.5,13.42,6\n"
    trips = "route_id,service_id,trip_id,shape_id\nr1,week,t1,s\nr2,week,t2,\n"
    polyline = (
        'from_stop_id,to_stop_id,polyline_lat_lon\nA,B,"52.5,13.40 52.51,13.40 52.51,13.41 52.5,13.41"\nB,C,oops\n'
    )
    (tmp_path / "tracks.csv").write_text(polyline)
    shaped = write_feed(tmp_path / "s", shapes=shape, trips=trips)
    plain = write_feed(tmp_path / "p")
    for gtfs, tracks, n in ((shaped, None, 1), (plain, tmp_path / "tracks.csv", 2), (plain, None, 0)):
        request = Request(tmp_path / "towers.csv", gtfs, _slot(), tmp_path / "out", tracks, hysteresis_m=0.0)
        with open_feed(spark, gtfs) as feed:
            _stops, moves = timetable(feed, request)
            towers = read_towers(spark, request.towers)
            found = attachment_changes(towers.frame, towers.count, moves, step_ms=1000, hysteresis_m=0)
            named = found.join(towers.frame, found["after"] == towers.frame["place"]).orderBy("device", "tick")
            served = [row["id"] for row in named.collect()]
        assert served == (["a", "n", "b", "c"] if n else ["a", "b", "c"]) + (
            ["a", "n", "b", "a"] if n == 2 else ["a", "b", "a"]
        )
        bad = {"shapes": {"point of no use": 1}} if tracks is None and n else {}
        assert feed.rejected == bad | ({"tracks": {"polyline of no use": 1}} if tracks else {})


def test_stops_are_laid_onto_a_loop_in_order() -> None:
    """A square that ends where it began: the first stop lies at the start, the last at the end."""
    lat = np.array([52.0, 52.01, 52.01, 52.0, 52.0])
    lon = np.array([13.0, 13.0, 13.02, 13.02, 13.0])
    pieces = lay(lat, lon, lat, lon)
    assert pieces[:, 0].tolist() == [0, 1, 2, 3]
    assert np.allclose(pieces[:, 3:5], np.column_stack((lat, lon))[:-1])
    assert np.allclose(pieces[:, 5:7], np.column_stack((lat, lon))[1:])
    halves = lay(np.array([52.0, 52.005, 52.0]), np.array([13.0, 13.02, 13.0]), lat, lon)
    assert halves[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert np.allclose(halves[[0, 3], 1], 0)
    assert np.allclose(halves[[2, 4], 2], 1)
    same = lay(np.array([52.0, 52.0]), np.array([13.0, 13.0]), np.array([52.0, 52.0]), np.array([13.0, 13.0]))
    assert same.shape == (0, 7)
    assert DAYS.count(",") == 6
