"""Tiny timetables and tower files, written out in full so that a test can be read by itself."""

from __future__ import annotations

import zipfile
from pathlib import Path

DAYS = "monday,tuesday,wednesday,thursday,friday,saturday,sunday"

#: four stops on a line from west to east, about 680 m apart
STOPS = """stop_id,stop_name,stop_lat,stop_lon
A,Alpha,52.5,13.40
B,Beta,52.5,13.41
C,Gamma,52.5,13.42
D,Delta,52.5,13.43
"""
GOOD = {
    "routes": "route_id,route_short_name\nr1,S1\nr2,S2\n",
    "trips": "route_id,service_id,trip_id\nr1,week,t1\nr2,week,t2\n",
    "stops": STOPS,
    "calendar": f"service_id,{DAYS},start_date,end_date\nweek,1,1,1,1,1,0,0,20260101,20261231\n",
    # t1 in the wrong order; t2 goes there and back
    "stop_times": """trip_id,arrival_time,departure_time,stop_id,stop_sequence
t1,12:04:00,12:04:00,C,3
t1,12:00:00,12:00:30,A,1
t1,12:02:00,12:02:30,B,2
t2,12:10:00,12:10:00,A,1
t2,12:12:00,12:12:30,B,2
t2,12:14:00,12:14:00,A,3
""",
}
#: a tower at every stop, b a little further on so that no tick falls right between two of them
TOWERS = "id,lat,lon\na,52.5,13.40\nb,52.5,13.4102\nc,52.5,13.42\nd,52.5,13.43\n"


def write_feed(folder: Path, **changes: str | None) -> Path:
    """The good feed with some files changed, added or (None) left out."""
    gtfs = folder / "gtfs"
    gtfs.mkdir(parents=True, exist_ok=True)
    for name, text in (GOOD | changes).items():
        if text is not None:
            (gtfs / f"{name}.txt").write_text(text, encoding="utf-8")
    return gtfs


def zip_feed(gtfs: Path, below: str = "") -> Path:
    path = gtfs.parent / "feed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in gtfs.iterdir():
            archive.write(file, below + file.name)
        archive.writestr("../evil.txt", "no")
    return path


def write_towers(folder: Path, text: str = TOWERS) -> Path:
    path = folder / "towers.csv"
    path.write_text(text, encoding="utf-8")
    return path
