"""The ways between stops: given polylines, the feed's shapes, or a straight line. Each way becomes pieces.

A piece is a straight part of a way: where it begins and ends, as shares of the way's length (f0, f1) and as places.
Shapes say nothing about which of their points a stop lies at. The stops are laid onto the shape in order, so that the
sum of their squared distances from it is least: a loop that ends where it began is no riddle then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from godwit.errors import DataError
from godwit.mobility.columns import metres_between, number
from godwit.mobility.geo import Floats, Ints, metres
from godwit.mobility.gtfs import GtfsFeed

PIECE = ("f0", "f1", "lat0", "lon0", "lat1", "lon1")
_PIECES = ", ".join(f"{name} double" for name in PIECE)
_NEEDED = ("from_stop_id", "to_stop_id", "polyline_lat_lon")


def read_tracks(spark: SparkSession, path: Path, rejected: dict[str, int]) -> DataFrame:
    """from_stop, to_stop and the pieces between them, from a CSV of stop-to-stop polylines."""
    if not path.exists():
        msg = f"{path}: there is no such file; give a CSV with {', '.join(_NEEDED)}"
        raise DataError(msg)
    frame = spark.read.csv(str(path), header=True, escape='"')
    lacking = [name for name in _NEEDED if name not in frame.columns]
    if lacking:
        msg = f"{path}: has no column {', '.join(lacking)}; it needs {', '.join(_NEEDED)}"
        raise DataError(msg)
    points = sf.transform(sf.split(sf.trim("polyline_lat_lon"), r"\s+"), _point)
    lines = frame.select(
        sf.col("from_stop_id").alias("from_stop"), sf.col("to_stop_id").alias("to_stop"), points.alias("points")
    )
    usable = sf.coalesce(
        sf.col("from_stop").isNotNull()
        & sf.col("to_stop").isNotNull()
        & (sf.size("points") >= 2)
        & sf.forall("points", lambda p: p["lat"].between(-90, 90) & p["lon"].between(-180, 180)),
        sf.lit(False),
    )
    bad = lines.where(~usable).count()
    if bad:
        rejected["polyline of no use"] = bad
    # Several lines may share a way: the one with most points follows the rails best.
    best = Window.partitionBy("from_stop", "to_stop").orderBy(sf.size("points").desc(), sf.col("points"))
    once = lines.where(usable).withColumn("rank", sf.row_number().over(best)).where("rank = 1").drop("rank")
    return _pieces(once, ["from_stop", "to_stop"])


def _point(text: Column) -> Column:
    part = sf.split(text, ",")
    return sf.struct(number(sf.get(part, sf.lit(0))).alias("lat"), number(sf.get(part, sf.lit(1))).alias("lon"))


def _pieces(lines: DataFrame, key: list[str]) -> DataFrame:
    """Polylines (key, points) as pieces."""
    order = Window.partitionBy(*key).orderBy("i")
    points = lines.select(*key, sf.posexplode("points").alias("i", "p"))
    steps = points.select(
        *key,
        "i",
        sf.col("p.lat").alias("lat0"),
        sf.col("p.lon").alias("lon0"),
        sf.lead("p.lat").over(order).alias("lat1"),
        sf.lead("p.lon").over(order).alias("lon1"),
    ).where("lat1 IS NOT NULL")
    away = metres_between(*(sf.col(c) for c in ("lat0", "lon0", "lat1", "lon1")))
    upto = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = steps.withColumn("m", away).withColumns(
        {"upto": sf.sum("m").over(upto), "all": sf.sum("m").over(Window.partitionBy(*key))}
    )
    # A way of no length is one piece that takes all the time; the others would share nothing.
    known = known.where((sf.col("m") > 0) | ((sf.col("all") == 0) & (sf.col("i") == 0)))
    share = sf.when(sf.col("all") > 0, sf.col("upto") / sf.col("all")).otherwise(1.0)
    # Each piece begins with the very number the one before ended with, so no moment is lost or counted twice.
    pieces = known.withColumn("f1", share).withColumn("f0", sf.coalesce(sf.lag("f1").over(order), sf.lit(0.0)))
    return pieces.select(*key, *PIECE)


def shape_tracks(feed: GtfsFeed, calls: DataFrame) -> tuple[DataFrame, DataFrame]:
    """(calls with their `pattern`, pieces by pattern and leg) from shapes.txt."""
    stops = sf.array_sort(sf.collect_list(sf.struct("leg", "stop_id", "lat", "lon")))
    runs = calls.where("shape_id IS NOT NULL").groupBy("device", "shape_id").agg(stops.alias("stops"))
    runs = feed.keep(runs.withColumn("pattern", sf.xxhash64("shape_id", sf.col("stops.stop_id"))))
    shapes = feed.table("shapes").select(
        "shape_id",
        sf.trim("shape_pt_sequence").try_cast("int").alias("i"),
        number(sf.col("shape_pt_lat")).alias("lat"),
        number(sf.col("shape_pt_lon")).alias("lon"),
    )
    usable = sf.coalesce(
        sf.col("lat").between(-90, 90) & sf.col("lon").between(-180, 180) & (sf.col("i") >= 0), sf.lit(False)
    )
    feed.note("shapes", "point of no use", shapes.where(~usable).count())
    ways = (
        shapes.where(usable)
        .groupBy("shape_id")
        .agg(sf.array_sort(sf.collect_list(sf.struct("i", "lat", "lon"))).alias("points"))
    )
    patterns = runs.dropDuplicates(["pattern"]).join(ways.where(sf.size("points") >= 2), "shape_id")
    flat = patterns.select(
        "pattern", *(sf.col(f"{a}.{b}").alias(f"{a}_{b}") for a in ("stops", "points") for b in ("lat", "lon"))
    )
    pieces = flat.mapInArrow(_lay_patterns, f"pattern long, leg int, {_PIECES}")
    return calls.join(runs.select("device", "pattern"), "device", "left"), pieces


def _lay_patterns(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lay the stops of each pattern onto its shape: a pattern at a time, its stops and points as arrays."""
    for batch in batches:
        columns = [batch[name] for name in ("pattern", "stops_lat", "stops_lon", "points_lat", "points_lon")]
        for pattern, *places in zip(*columns, strict=True):
            table = lay(*(np.array(place.as_py()) for place in places))
            arrays = [pa.array(np.full(len(table), pattern.as_py())), pa.array(table[:, 0].astype(np.int32))]
            yield pa.RecordBatch.from_arrays([*arrays, *map(pa.array, table[:, 1:].T)], ["pattern", "leg", *PIECE])


def lay(stop_lat: Floats, stop_lon: Floats, lat: Floats, lon: Floats) -> Floats:
    """Pieces of each leg of a trip along a shape: rows (leg, f0, f1, lat0, lon0, lat1, lon1)."""
    step = metres(lat[:-1], lon[:-1], lat[1:], lon[1:])
    keep = np.concatenate(([True], step > 0))
    lat, lon, step = lat[keep], lon[keep], step[step > 0]
    if len(step) == 0:
        return np.empty((0, 7))
    at = np.concatenate(([0.0], np.cumsum(step)))
    along = _along(stop_lat, stop_lon, lat, lon, at)
    rows = []
    for leg, (a, b) in enumerate(pairwise(along)):
        inner = at[(at > a) & (at < b)]
        cut = np.concatenate(([a], inner, [b]))
        y, x = np.interp(cut, at, lat), np.interp(cut, at, lon)
        share = (cut - a) / (b - a) if b > a else np.array([0.0, 1.0])
        rows.append(np.column_stack((np.full(len(cut) - 1, leg), share[:-1], share[1:], y[:-1], x[:-1], y[1:], x[1:])))
    return np.concatenate(rows)


def _along(stop_lat: Floats, stop_lon: Floats, lat: Floats, lon: Floats, at: Floats) -> Floats:
    """How far along the shape each stop lies: never back, and the squared distances from the shape least in sum."""
    off, where = _project(stop_lat, stop_lon, lat, lon, at)
    best = np.empty_like(off)
    came: Ints = np.zeros(off.shape, dtype=np.int64)
    best[0] = off[0]
    for stop in range(1, len(off)):
        low = np.minimum.accumulate(best[stop - 1])
        came[stop] = _first_least(best[stop - 1])
        best[stop] = off[stop] + low
    piece = int(np.argmin(best[-1]))
    found = np.empty(len(off))
    for stop in range(len(off) - 1, -1, -1):
        found[stop] = where[stop, piece]
        piece = int(came[stop, piece])
    return np.maximum.accumulate(found)


def _first_least(values: Floats) -> Ints:
    """For each place, where the least value up to there stands."""
    lower = np.concatenate(([True], values[1:] < np.minimum.accumulate(values)[:-1]))
    return np.maximum.accumulate(np.where(lower, np.arange(len(values)), 0))


def _project(stop_lat: Floats, stop_lon: Floats, lat: Floats, lon: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Squared distance of every stop from every piece of the shape, and how far along its foot lies."""
    scale = np.cos(np.radians(lat.mean()))
    px, py = lon * scale, lat
    sx, sy = (stop_lon * scale)[:, None], stop_lat[:, None]
    dx, dy = np.diff(px), np.diff(py)
    part = np.clip(((sx - px[:-1]) * dx + (sy - py[:-1]) * dy) / (dx**2 + dy**2), 0, 1)
    off = (sx - px[:-1] - part * dx) ** 2 + (sy - py[:-1] - part * dy) ** 2
    return off, at[:-1] + part * np.diff(at)
