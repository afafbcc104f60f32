"""A GTFS timetable (folder or zip) as stops of trips in a window of one day.

Reads routes, trips, stops, stop_times and, where they exist, calendar, calendar_dates and frequencies. A day is a date
(calendar and calendar_dates decide) or a weekday (every service whose calendar has that day). Trips of the day before
that run past midnight are there, too, as are times beyond 24:00. Rows of no use are counted by reason.
"""

from __future__ import annotations

import datetime as dt
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from godwit.errors import ConfigError, DataError
from godwit.mobility.columns import number

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY_MS = 86_400_000
#: the files that are read, and the columns each must have
_NEEDED = {
    "routes": ("route_id",),
    "trips": ("route_id", "service_id", "trip_id"),
    "stops": ("stop_id", "stop_lat", "stop_lon"),
    "stop_times": ("trip_id", "stop_id", "stop_sequence", "arrival_time", "departure_time"),
    "calendar": ("service_id", *WEEKDAYS, "start_date", "end_date"),
    "calendar_dates": ("service_id", "date", "exception_type"),
    "frequencies": ("trip_id", "start_time", "end_time", "headway_secs"),
    "shapes": ("shape_id", "shape_pt_lat", "shape_pt_lon", "shape_pt_sequence"),
}


@dataclass(frozen=True)
class Slot:
    """The part of the timetable to look at."""

    #: a weekday's name or a date (2026-11-16)
    day: str
    #: milliseconds after the day's midnight
    start_ms: int
    end_ms: int
    #: route names; empty means all
    lines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start_ms < self.end_ms:
            msg = "the window is empty: --to must be later than --from"
            raise ConfigError(msg)
        weekday(self.day)


@dataclass(frozen=True)
class GtfsFeed:
    """The tables of a feed. Every column is text; `has` says whether an optional file is there."""

    spark: SparkSession
    folder: Path
    #: as the user named it, for messages
    name: str
    rejected: dict[str, dict[str, int]] = field(default_factory=dict)
    cached: list[DataFrame] = field(default_factory=list)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Cache what is needed more than once, for as long as the feed is open."""
        self.cached.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def has(self, table: str) -> bool:
        """Is the file there, and not empty?"""
        path = self.folder / f"{table}.txt"
        return path.is_file() and path.stat().st_size > 0

    def table(self, table: str) -> DataFrame:
        """One file, with the columns it must have and those it may have."""
        if not self.has(table):
            msg = f"{self.name}: {table}.txt is missing or empty; a timetable needs it"
            raise DataError(msg)
        path = self.folder / f"{table}.txt"
        with path.open(encoding="utf-8-sig", errors="replace") as text:
            names = [name.strip().strip('"') for name in text.readline().split(",")]
        lacking = [name for name in _NEEDED[table] if name not in names]
        if lacking:
            msg = f"{self.name}: {table}.txt has no column {', '.join(lacking)}; its columns are {', '.join(names)}"
            raise DataError(msg)
        schema = ", ".join(f"`{n or f'column {i}'}` STRING" for i, n in enumerate(names))
        return self.spark.read.csv(str(path), schema=schema, header=True, escape='"', ignoreLeadingWhiteSpace=True)

    def note(self, table: str, reason: str, count: int) -> None:
        """Count rows that are left out."""
        if count:
            self.rejected.setdefault(table, {})[reason] = count


@contextmanager
def open_feed(spark: SparkSession, path: Path) -> Iterator[GtfsFeed]:
    """A feed in a folder, or in a zip that is unpacked for as long as it is needed."""
    with tempfile.TemporaryDirectory(prefix="godwit-gtfs-") as unpacked:
        feed = GtfsFeed(spark, path if path.is_dir() else _unpack(path, Path(unpacked)), str(path))
        try:
            yield feed
        finally:
            for frame in feed.cached:
                frame.unpersist()


def _unpack(path: Path, folder: Path) -> Path:
    if not path.is_file():
        msg = f"{path}: there is no such folder or zip; give a GTFS timetable"
        raise DataError(msg)
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                # Only files we know, by their last name: a feed in a sub-folder is fine, a path out of ours is not.
                name = member.rsplit("/", 1)[-1]
                if name.endswith(".txt") and name.removesuffix(".txt") in _NEEDED:
                    with archive.open(member) as source, (folder / name).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error) as error:
        msg = f"{path}: is neither a folder nor a zip ({error}); give a GTFS timetable"
        raise DataError(msg) from error
    return folder


def weekday(day: str) -> tuple[str, dt.date | None]:
    """The weekday of a day, and its date if it is one."""
    if day.lower() in WEEKDAYS:
        return day.lower(), None
    try:
        date = dt.date.fromisoformat(day)
    except ValueError as error:
        msg = f"--day {day!r} is neither a weekday ({', '.join(WEEKDAYS)}) nor a date like 2026-11-16"
        raise ConfigError(msg) from error
    return WEEKDAYS[date.weekday()], date


def clock_ms(text: str) -> int:
    """'12:00', '12:00:30' or '25:10' as milliseconds after midnight."""
    match = re.fullmatch(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d))?", text.strip())
    if not match:
        msg = f"{text!r} is not a time of day; write it like 12:00 (24:30 is half past midnight of the next day)"
        raise ConfigError(msg)
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def calls(feed: GtfsFeed, slot: Slot) -> DataFrame:
    """device, line, shape_id, stop_id, station, lat, lon, place in the trip, arrive and depart (ms in the window)."""
    trips = _trips(feed, slot)
    times = _stop_times(feed, trips.select("trip_id").distinct(), _stops(feed))
    return _sound(feed, _runs(feed, trips, times, slot), slot)


def _trips(feed: GtfsFeed, slot: Slot) -> DataFrame:
    """trip_id, line, shape_id and the day's shift for the trips of the wanted lines that run on the day."""
    routes, trips = feed.table("routes"), feed.table("trips")
    names = [sf.col(c) for c in ("route_short_name", "route_long_name", "route_id") if c in routes.columns]
    routes = routes.select(
        "route_id", sf.coalesce(*[sf.when(sf.trim(c) != "", sf.trim(c)) for c in names]).alias("line")
    )
    if slot.lines:
        known = {row["line"] for row in routes.select("line").distinct().collect()}
        lost = sorted(set(slot.lines) - known)
        if lost:
            some = sorted(known)[:30]
            msg = f"{feed.name}: routes.txt has no line {', '.join(lost)}; it has, among others, {', '.join(some)}"
            raise DataError(msg)
        routes = routes.where(sf.col("line").isin(*slot.lines))
    shape = sf.col("shape_id") if "shape_id" in trips.columns else sf.lit(None).cast("string")
    chosen = trips.select("route_id", "service_id", "trip_id", shape.alias("shape_id")).join(routes, "route_id")
    running = chosen.join(_services(feed, slot), "service_id").dropDuplicates(["trip_id", "shift_ms"])
    if running.isEmpty():
        what = f"lines {', '.join(slot.lines)}" if slot.lines else "any line"
        msg = f"{feed.name}: no trip of {what} runs on {slot.day}; choose another --day"
        raise DataError(msg)
    return running.select("trip_id", "line", "shape_id", "shift_ms")


def _services(feed: GtfsFeed, slot: Slot) -> DataFrame:
    """service_id and the shift of its times: 0 on the day itself, a day back for services of the day before."""
    name, date = weekday(slot.day)
    if date is None and not feed.has("calendar"):
        msg = f"{feed.name}: has no calendar.txt, so a weekday says nothing; give --day as a date"
        raise DataError(msg)
    today = _running(feed, name, date).withColumn("shift_ms", sf.lit(0))
    before = WEEKDAYS[WEEKDAYS.index(name) - 1]
    eve = _running(feed, before, None if date is None else date - dt.timedelta(days=1))
    return today.unionByName(eve.withColumn("shift_ms", sf.lit(-DAY_MS)))


def _running(feed: GtfsFeed, name: str, date: dt.date | None) -> DataFrame:
    """The services of a day. Exceptions need a date: a weekday alone does not say which week is meant."""
    found = feed.spark.createDataFrame([], "service_id string")
    if feed.has("calendar"):
        days = feed.table("calendar").where(sf.trim(name) == "1")
        if date is not None:
            days = days.where(sf.lit(f"{date:%Y%m%d}").between(sf.trim("start_date"), sf.trim("end_date")))
        found = days.select("service_id")
    if date is not None and feed.has("calendar_dates"):
        extra = feed.table("calendar_dates").where(sf.trim("date") == f"{date:%Y%m%d}")
        added = extra.where(sf.trim("exception_type") == "1").select("service_id")
        gone = extra.where(sf.trim("exception_type") == "2").select("service_id")
        found = found.union(added).join(gone, "service_id", "left_anti")
    return found.distinct()


def _stops(feed: GtfsFeed) -> DataFrame:
    frame = feed.table("stops")
    station = sf.col("stop_name") if "stop_name" in frame.columns else sf.col("stop_id")
    lat, lon = number(sf.col("stop_lat")), number(sf.col("stop_lon"))
    usable = sf.coalesce(lat.between(-90, 90) & lon.between(-180, 180) & ~((lat == 0) & (lon == 0)), sf.lit(False))
    found = frame.select("stop_id", station.alias("station"), lat.alias("lat"), lon.alias("lon"), usable.alias("ok"))
    once = sf.count_distinct(sf.when(sf.col("ok"), sf.col("stop_id")))
    row = found.agg(sf.count_if(~sf.col("ok")), sf.count_if("ok"), once).collect()[0]
    feed.note("stops", "coordinates missing, swapped or off the globe", row[0])
    feed.note("stops", "stop_id seen before", row[1] - row[2])
    return found.where("ok").drop("ok").dropDuplicates(["stop_id"])


def _stop_times(feed: GtfsFeed, trips: DataFrame, stops: DataFrame) -> DataFrame:
    """Stop times of the trips with their places, in milliseconds; a stop without any time is passed through."""
    frame = feed.table("stop_times").join(trips, "trip_id", "left_semi").join(stops, "stop_id", "left")
    arrive, depart = _ms(sf.col("arrival_time")), _ms(sf.col("departure_time"))
    times = frame.select(
        "trip_id",
        *("stop_id", "station", "lat", "lon"),
        sf.trim("stop_sequence").try_cast("int").alias("seq"),
        sf.coalesce(arrive, depart).alias("arrive"),
        sf.coalesce(depart, arrive).alias("depart"),
    )
    feed.keep(times)
    numbered, timed = sf.col("seq").isNotNull(), sf.col("arrive").isNotNull()
    kinds = {
        "stop_sequence is not a number": ~numbered,
        "no usable time (passed through)": numbered & ~timed,
        "stop unknown or without coordinates": numbered & timed & sf.col("lat").isNull(),
    }
    _count(feed, "stop_times", times, kinds)
    return times.where(numbered & timed & sf.col("lat").isNotNull())


def _ms(text: Column) -> Column:
    """H:MM:SS after midnight, hours beyond 24 allowed, as milliseconds; null for anything else."""
    part = r"^\s*(\d{1,3}):([0-5]\d):([0-5]\d)\s*$"
    hours, minutes, seconds = (sf.regexp_extract(text, part, i).try_cast("long") for i in (1, 2, 3))
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


def _runs(feed: GtfsFeed, trips: DataFrame, times: DataFrame, slot: Slot) -> DataFrame:
    """Every run of every trip: once as written, or many times where frequencies.txt says so."""
    base = sf.col("shift_ms") - sf.lit(slot.start_ms)
    eve = sf.when(sf.col("shift_ms") < 0, "~eve").otherwise("")
    name = sf.concat(sf.col("line"), sf.lit("-"), sf.col("trip_id"), eve)
    joined = times.join(sf.broadcast(trips) if slot.lines else trips, "trip_id")
    plain = joined.withColumns({"base": base, "device": name})
    if feed.has("frequencies"):
        often = _frequencies(feed)
        first = times.groupBy("trip_id").agg(sf.min("arrive").alias("first"))
        repeated = plain.join(often.join(first, "trip_id"), "trip_id")
        repeated = repeated.withColumns(
            {
                "base": sf.col("base") + sf.col("start") - sf.col("first"),
                "device": sf.concat("device", sf.lit("@"), (sf.col("start") / 1000).cast("long").cast("string")),
            }
        ).drop("start", "first")
        plain = plain.join(often.select("trip_id").distinct(), "trip_id", "left_anti").unionByName(repeated)
    shifted = plain.withColumns(
        {"arrive": sf.col("arrive") + sf.col("base"), "depart": sf.col("depart") + sf.col("base")}
    )
    return shifted.select("device", "line", "shape_id", "stop_id", "station", "lat", "lon", "seq", "arrive", "depart")


def _frequencies(feed: GtfsFeed) -> DataFrame:
    """trip_id and the start of each of its runs."""
    frame = feed.table("frequencies").select(
        "trip_id",
        _ms(sf.col("start_time")).alias("a"),
        _ms(sf.col("end_time")).alias("b"),
        (sf.trim("headway_secs").try_cast("long") * 1000).alias("h"),
    )
    usable = sf.coalesce((sf.col("a") < sf.col("b")) & (sf.col("h") > 0), sf.lit(False))
    feed.note("frequencies", "no usable times or headway", frame.where(~usable).count())
    return frame.where(usable).select("trip_id", sf.explode(sf.sequence("a", sf.expr("b - 1"), "h")).alias("start"))


def _sound(feed: GtfsFeed, runs: DataFrame, slot: Slot) -> DataFrame:
    """Runs in the window that have at least two stops and never go back in time, stops numbered in order."""
    order = Window.partitionBy("device").orderBy("seq", "arrive")
    window_ms = slot.end_ms - slot.start_ms
    ordered = runs.withColumns(
        {
            "leg": sf.row_number().over(order) - 1,
            "back": (sf.col("depart") < sf.col("arrive"))
            | sf.coalesce(sf.col("arrive") < sf.lag("depart").over(order), sf.lit(False)),
        }
    )
    whole = Window.partitionBy("device")
    judged = ordered.withColumns(
        {
            "stops": sf.count("*").over(whole),
            "broken": sf.max("back").over(whole),
            "early": sf.min("arrive").over(whole),
            "late": sf.max("depart").over(whole),
        }
    ).where((sf.col("late") > 0) & (sf.col("early") < window_ms))
    feed.keep(judged)
    first = judged.where("leg = 0")
    kinds = {"times go backwards": sf.col("broken"), "fewer than two stops": ~sf.col("broken") & (sf.col("stops") < 2)}
    _count(feed, "trips", first, kinds)
    return judged.where("NOT broken AND stops >= 2").drop("back", "stops", "broken", "early", "late", "seq")


def _count(feed: GtfsFeed, table: str, frame: DataFrame, kinds: dict[str, Column]) -> None:
    row = frame.agg(*(sf.count_if(condition).alias(reason) for reason, condition in kinds.items())).collect()[0]
    for reason in kinds:
        feed.note(table, reason, row[reason])
