"""From stops of trips to segments of movement: standing at a stop, running along the pieces of the way to the next."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from godwit.mobility.tracks import PIECE

SEGMENT = ("device", "t0", "t1", "lat0", "lon0", "lat1", "lon1")


def segments(calls: DataFrame, window_ms: int, tracks: DataFrame | None, shapes: DataFrame | None) -> DataFrame:
    """device, t0, t1, lat0, lon0, lat1, lon1: every movement inside the window, cut at its edges."""
    stand = calls.where("depart > arrive").select(
        "device", *_as(t0="arrive", t1="depart", lat0="lat", lon0="lon", lat1="lat", lon1="lon")
    )
    run = _along(_legs(calls), tracks, shapes)
    return _cut(stand.unionByName(run), window_ms)


def _as(**names: str) -> list[Column]:
    return [sf.col(old).alias(new) for new, old in names.items()]


def _legs(calls: DataFrame) -> DataFrame:
    """From each stop to the next one of the same trip."""
    order = Window.partitionBy("device").orderBy("leg")
    following = {f"to_{name}": sf.lead(name).over(order) for name in ("stop_id", "lat", "lon", "arrive")}
    # A leg that takes no time is a jump no tick can see.
    return calls.withColumns(following).where("to_arrive > depart")


def _along(legs: DataFrame, tracks: DataFrame | None, shapes: DataFrame | None) -> DataFrame:
    """Legs as pieces: along the given track, else along the feed's shape, else straight."""
    straight = [sf.lit(0.0), sf.lit(1.0), *(sf.col(c) for c in ("lat", "lon", "to_lat", "to_lon"))]
    chosen = dict(zip(PIECE, straight, strict=True))
    joined = legs
    if tracks is not None:
        given = tracks.select("from_stop", "to_stop", *(sf.col(c).alias(f"track_{c}") for c in PIECE))
        same = (sf.col("stop_id") == sf.col("from_stop")) & (sf.col("to_stop_id") == sf.col("to_stop"))
        joined = joined.join(sf.broadcast(given), same, "left")
    if shapes is not None:
        # A leg with a track must not be multiplied by the pieces of its shape as well.
        free = sf.col("track_f0").isNull() if tracks is not None else sf.lit(True)
        laid = shapes.select(
            sf.col("pattern").alias("p"), sf.col("leg").alias("l"), *(sf.col(c).alias(f"shape_{c}") for c in PIECE)
        )
        joined = joined.join(laid, free & (sf.col("pattern") == sf.col("p")) & (sf.col("leg") == sf.col("l")), "left")
        chosen = {c: sf.coalesce(f"shape_{c}", straight) for c, straight in chosen.items()}
    if tracks is not None:
        chosen = {c: sf.coalesce(f"track_{c}", other) for c, other in chosen.items()}
    took = sf.col("to_arrive") - sf.col("depart")
    time = {
        t: (sf.col("depart") + sf.rint(chosen[f] * took).cast("long")).alias(t) for t, f in (("t0", "f0"), ("t1", "f1"))
    }
    places = [chosen[c].alias(c) for c in ("lat0", "lon0", "lat1", "lon1")]
    return joined.select("device", time["t0"], time["t1"], *places)


def _cut(moves: DataFrame, window_ms: int) -> DataFrame:
    """The part of each segment inside the window."""
    inside = moves.where((sf.col("t1") > 0) & (sf.col("t0") < window_ms) & (sf.col("t1") > sf.col("t0")))
    t0, t1 = sf.col("t0"), sf.col("t1")
    start, stop = sf.greatest(t0, sf.lit(0)), sf.least(t1, sf.lit(window_ms))

    def at(axis: str, t: Column) -> Column:
        a, b = sf.col(f"{axis}0"), sf.col(f"{axis}1")
        way = b - a if axis == "lat" else (b - a + 540) % 360 - 180
        return a + (t - t0) / (t1 - t0) * way

    return inside.select(
        "device",
        start.alias("t0"),
        stop.alias("t1"),
        at("lat", start).alias("lat0"),
        at("lon", start).alias("lon0"),
        at("lat", stop).alias("lat1"),
        at("lon", stop).alias("lon1"),
    )
