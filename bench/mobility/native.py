"""The road not taken: the nearest tower with Spark's own operators alone, as a join by cell.

Positions are made by exploding the ticks of each segment; towers are put into their cell and the eight around it;
what meets in a cell is compared. The cell is as wide as makes two towers a cell on average. It is no full answer (a
position with no tower in nine cells stays without), so it is flattered: the search further out is left away.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from bench.mobility.country import Country, write_parquet
from bench.mobility.measure import STEP_MS
from godwit.mobility.columns import place_lat, place_lon

_SQUARE_DEGREES = 7.7 * 9.1


def native_nearest(spark: SparkSession, country: Country, folder: Path) -> dict[str, float]:
    """Seconds from Parquet to the summed distance of every position to its nearest tower."""
    write_parquet(country, folder)
    side = math.sqrt(2 * _SQUARE_DEGREES / len(country.tower_lat))
    start = time.perf_counter()
    place = sf.col("place")
    towers = spark.read.parquet(str(folder / "towers.parquet")).select(
        place_lat(place).alias("t_lat"), place_lon(place).alias("t_lon")
    )
    around = sf.explode(sf.array(*(sf.lit(i) for i in (-1, 0, 1))))
    spread = towers.withColumn("dr", around).withColumn("dc", around)
    spread = spread.select(
        (_cell(sf.col("t_lat"), side) + sf.col("dr")).alias("row"),
        (_cell(sf.col("t_lon"), side) + sf.col("dc")).alias("col"),
        "t_lat",
        "t_lon",
    )
    moves = spark.read.parquet(str(folder / "segments.parquet"))
    first, last = (sf.ceil(sf.col(t) / STEP_MS) for t in ("t0", "t1"))
    ticks = moves.where(first < last).withColumn("tick", sf.explode(sf.sequence(first, last - 1)))
    part = (sf.col("tick") * STEP_MS - sf.col("t0")) / (sf.col("t1") - sf.col("t0"))
    at = ticks.select(
        sf.col("device").cast("long"),
        "tick",
        (sf.col("lat0") + part * (sf.col("lat1") - sf.col("lat0"))).alias("lat"),
        (sf.col("lon0") + part * (sf.col("lon1") - sf.col("lon0"))).alias("lon"),
    )
    at = at.withColumns({"row": _cell(sf.col("lat"), side), "col": _cell(sf.col("lon"), side)})
    north = sf.col("t_lat") - sf.col("lat")
    east = (sf.col("t_lon") - sf.col("lon")) * sf.cos(sf.radians(sf.col("lat")))
    nearest = (
        at.join(spread, ["row", "col"]).groupBy("device", "tick").agg(sf.min(north * north + east * east).alias("d"))
    )
    row = nearest.agg(sf.count("*").alias("found"), sf.sum("d")).collect()[0]
    return {"seconds": round(time.perf_counter() - start, 3), "positions_found": row["found"]}


def _cell(degrees: Column, side: float) -> Column:
    return sf.floor(degrees / side)
