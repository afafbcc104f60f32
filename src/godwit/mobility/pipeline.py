"""Towers and a timetable in, a trace out: the pipeline on Spark, from end to end.

    read towers ─┐
    read calls ──┴─ segments ─ attachment changes ─ sites and regions ─ files and a summary

Bad rows are counted on the way. Nothing that grows with the timetable passes through the driver; towers pass as one
integer each, and only those that can matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from godwit.errors import ConfigError, DataError
from godwit.mobility.geo import unpack
from godwit.mobility.gtfs import GtfsFeed, Slot, calls, open_feed
from godwit.mobility.handovers import attachment_changes, count_positions
from godwit.mobility.hierarchy import Hierarchy, build_topology, write_topology
from godwit.mobility.legs import segments
from godwit.mobility.output import write_events, write_nebula_events, write_stops
from godwit.mobility.summary import PERCENTILES, Summary
from godwit.mobility.towers import Towers, read_towers
from godwit.mobility.trace import Trace
from godwit.mobility.tracks import read_tracks, shape_tracks
from godwit.mobility.twin import STEP_MS, check_speedup

STAGES = ("towers", "timetable", "hand-overs", "topology", "files", "summary")


@dataclass(frozen=True)
class Request:
    """What to build from what."""

    towers: Path
    gtfs: Path
    slot: Slot
    out: Path
    #: stop-to-stop polylines; without them the feed's shapes or straight lines serve
    tracks: Path | None = None
    hysteresis_m: float = 50.0
    min_antennas: int = 0
    speedup: float = 1.0
    shape: Hierarchy = field(default_factory=Hierarchy)

    def __post_init__(self) -> None:
        check_speedup(self.speedup)
        if not self.hysteresis_m >= 0:
            msg = f"--hysteresis must be 0 or more metres, not {self.hysteresis_m}"
            raise ConfigError(msg)

    @property
    def window_ms(self) -> int:
        """Length of the window in the timetable's time."""
        return self.slot.end_ms - self.slot.start_ms


def build(spark: SparkSession, request: Request, progress: Callable[[str], None] = lambda stage: None) -> Summary:
    """Write trace.jsonl, topology.yaml, calls.jsonl, summary.json and nebula/ into `request.out`."""
    progress("towers")
    try:
        towers = read_towers(spark, request.towers, request.min_antennas)
        try:
            with open_feed(spark, request.gtfs) as feed:
                feed.rejected["towers"] = dict(towers.rejected)
                return _from_feed(request, feed, towers, progress)
        finally:
            towers.frame.unpersist()
    except (PySparkException, Py4JJavaError) as error:
        why = error.java_exception.toString() if isinstance(error, Py4JJavaError) else str(error)
        reason = why.strip().splitlines()[0]
        if "OutOfMemoryError" in reason:
            msg = f"Spark's memory is too small for {request.towers} and {request.gtfs}; give more, e.g. --memory 4g"
            raise ConfigError(msg) from error
        msg = f"Spark could not read {request.towers} or {request.gtfs}: {reason}; check that the files are whole"
        raise DataError(msg) from error


def _from_feed(request: Request, feed: GtfsFeed, towers: Towers, progress: Callable[[str], None]) -> Summary:
    progress("timetable")
    stops, moves = timetable(feed, request)
    progress("hand-overs")
    events = _events(towers, moves, request)
    feed.keep(events)
    return _write(request, feed, towers, (stops, moves, events), progress)


def timetable(feed: GtfsFeed, request: Request) -> tuple[DataFrame, DataFrame]:
    """The stops of the trips in the window, and their movements; both cached."""
    stops = calls(feed, request.slot)
    tracks = shapes = None
    if request.tracks is not None:
        tracks = read_tracks(feed.spark, request.tracks, feed.rejected.setdefault("tracks", {}))
    if feed.has("shapes"):
        stops, shapes = shape_tracks(feed, stops)
    feed.keep(stops)
    moves = feed.keep(segments(stops, request.window_ms, tracks, shapes))
    if moves.isEmpty():
        left_out = "; ".join(f"{n} x {why}" for why, n in feed.rejected.get("trips", {}).items())
        msg = f"{feed.name}: no trip moves between --from and --to on {request.slot.day}" + (
            f" ({left_out})" if left_out else ""
        )
        raise DataError(msg + "; choose another window, day or line")
    return stops, moves


def _events(towers: Towers, moves: DataFrame, request: Request) -> DataFrame:
    """t, device, kind, site, previous, with sites still as packed places."""
    found = attachment_changes(towers.frame, towers.count, moves, step_ms=STEP_MS, hysteresis_m=request.hysteresis_m)
    kind = sf.when(sf.col("before").isNull(), "attach").when(sf.col("after").isNull(), "detach").otherwise("handover")
    # Who is on the way when the window closes stays attached.
    real = found.where(sf.col("after").isNotNull() | (sf.col("tick") * STEP_MS < request.window_ms))
    t = sf.floor(sf.col("tick") * STEP_MS / request.speedup).cast("long")
    return real.select(t.alias("t"), "device", kind.alias("kind"), *_renamed(site="after", previous="before"))


def _renamed(**names: str) -> list[Column]:
    return [sf.col(old).alias(new) for new, old in names.items()]


Frames = tuple[DataFrame, DataFrame, DataFrame]


def _write(
    request: Request, feed: GtfsFeed, towers: Towers, frames: Frames, progress: Callable[[str], None]
) -> Summary:
    stops, moves, events = frames
    progress("topology")
    places, ids = _serving(events, towers)
    named = feed.keep(_named(events, places, ids))
    devices = _devices(named)
    start = {device: site for device, site in devices.items() if site is not None}
    topology = build_topology(ids, *unpack(places), devices, request.shape)
    progress("files")
    request.out.mkdir(parents=True, exist_ok=True)
    about = Trace(int(request.window_ms / request.speedup), (), request.speedup, _source(request))
    write_events(named, about, request.out / "trace.jsonl")
    write_topology(topology, request.out / "topology.yaml")
    write_nebula_events(named, topology, list(devices), start, request.out / "nebula")
    inside = stops.where((sf.col("arrive") >= 0) & (sf.col("arrive") < request.window_ms))
    t = sf.floor(sf.col("arrive") / request.speedup).cast("long")
    write_stops(inside.select("device", "line", "station", t.alias("t")), request.out / "calls.jsonl")
    progress("summary")
    rejected = {table: reasons for table, reasons in feed.rejected.items() if reasons}
    summary = replace(summarise_on_spark(named, about.duration_ms), rejected=rejected)
    summary = replace(summary, positions=count_positions(moves, STEP_MS))
    (request.out / "summary.json").write_text(summary.to_json() + "\n", encoding="utf-8")
    return summary


def _source(request: Request) -> str:
    lines = ", ".join(request.slot.lines) or "all lines"
    return f"{lines} of {request.gtfs.name} on {request.slot.day}, hysteresis {request.hysteresis_m:g} m"


def _serving(events: DataFrame, towers: Towers) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str]]:
    """Places of the serving towers and their ids; of towers at one place the first by id stands for all."""
    used = events.where("site IS NOT NULL").select(sf.col("site").alias("place")).distinct()
    known = towers.frame.join(sf.broadcast(used), "place").groupBy("place").agg(sf.min("id").alias("id"))
    table = known.orderBy("id").toArrow()
    return table["place"].to_numpy(), table["id"].to_pylist()


def _named(events: DataFrame, places: np.ndarray[tuple[int], np.dtype[np.int64]], ids: list[str]) -> DataFrame:
    """Events with the names of their sites."""
    names = events.sparkSession.createDataFrame(pa.table({"place": places, "id": ids}))
    for column in ("site", "previous"):
        these = sf.broadcast(names.select(sf.col("place").alias(column), sf.col("id").alias(f"{column}_id")))
        events = events.join(these, column, "left").drop(column).withColumnRenamed(f"{column}_id", column)
    return events.select("t", "device", "kind", "site", "previous")


def _devices(events: DataFrame) -> dict[str, str | None]:
    """Every device and where it is once the events of moment 0 have happened."""
    first = sf.max(sf.when(sf.col("t") == 0, sf.col("site"))).alias("site")
    table = events.groupBy("device").agg(first).orderBy("device").toArrow()
    return dict(zip(table["device"].to_pylist(), table["site"].to_pylist(), strict=True))


def summarise_on_spark(events: DataFrame, duration_ms: int) -> Summary:
    """The figures of summary.py, computed where the events are."""
    order = Window.partitionBy("device").orderBy("t")
    stays = events.withColumn("stay", sf.when(sf.col("previous").isNotNull(), sf.col("t") - sf.lag("t").over(order)))
    row = stays.agg(
        sf.count_distinct("device").alias("devices"),
        sf.count_distinct("site").alias("sites"),
        *(sf.count_if(sf.col("kind") == kind).alias(kind) for kind in ("attach", "handover", "detach")),
        sf.percentile("stay", list(PERCENTILES)).alias("dwell"),
    ).collect()[0]
    seconds = events.groupBy(sf.floor(sf.col("t") / 1000).alias("s")).count().agg(sf.max("count")).collect()[0][0]
    low, middle, high = (float(x) / 1000 for x in row["dwell"] or (0, 0, 0))
    return Summary(
        devices=row["devices"],
        duration_s=duration_ms / 1000,
        attaches=row["attach"],
        handovers=row["handover"],
        detaches=row["detach"],
        serving_sites=row["sites"],
        dwell_s=(low, middle, high),
        busiest_second=seconds or 0,
    )
