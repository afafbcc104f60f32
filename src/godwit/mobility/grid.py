"""The grid join: which of a country's towers can be nearest to any position at all.

Space is cut into cubes of metres around the Earth's centre, in levels: 500 m, then four times that, and so on. If the
cube of a position holds a tower, the nearest one is little more than two sides away, so it lies in one of the 27 cubes
around the position one level up. Only where a cube is empty does the search go up a level: sparse country costs no
more than the few cubes asked. What is kept is exact, as tests against all towers show.

Spark finds the cubes of towers and ways and filters the towers by the cubes that matter; in between, the cubes (some
hundred thousand for a country, one integer each) are compared here.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from godwit.mobility.columns import metres_between, place_lat, place_lon, xyz_columns
from godwit.mobility.geo import Ints

SIDE_M = 500.0
_UP = 4
_LEVELS = 8  # 500 m x 4^8 is larger than the Earth
_BITS = 20
_MIDDLE = 1 << (_BITS - 1)


def relevant(towers: DataFrame, segments: DataFrame) -> DataFrame:
    """The towers (with a `place`) that can be nearest to a position on a segment."""
    lat, lon = place_lat(sf.col("place")), place_lon(sf.col("place"))
    with_cube = towers.withColumn("cube", _cube(lat, lon))
    spark = towers.sparkSession
    kept = needed(_distinct(with_cube), _distinct(way_cubes(segments)))
    wanted = spark.createDataFrame(pa.table({"cube": kept}))
    return with_cube.join(sf.broadcast(wanted), "cube", "left_semi").drop("cube")


def way_cubes(segments: DataFrame) -> DataFrame:
    """Cubes of points on the segments, no farther apart than half a side."""
    names = ("lat0", "lon0", "lat1", "lon1")
    steps = sf.ceil(metres_between(*(sf.col(c) for c in names)) / (SIDE_M / 2)).cast("int")
    ways = segments.select(*names).distinct().withColumn("n", sf.greatest(steps, sf.lit(1)))
    points = ways.select(*names, "n", sf.explode(sf.sequence(sf.lit(0), "n")).alias("i"))
    part = sf.col("i") / sf.col("n")
    lat = sf.col("lat0") + part * (sf.col("lat1") - sf.col("lat0"))
    lon = sf.col("lon0") + part * ((sf.col("lon1") - sf.col("lon0") + 540) % 360 - 180)
    return points.select(_cube(lat, lon).alias("cube"))


def _cube(lat: Column, lon: Column) -> Column:
    x, y, z = (sf.floor(c / SIDE_M) + _MIDDLE for c in xyz_columns(lat, lon))
    return sf.shiftleft(sf.shiftleft(x, _BITS).bitwiseOR(y), _BITS).bitwiseOR(z)


def _distinct(frame: DataFrame) -> Ints:
    return np.asarray(frame.select("cube").distinct().toArrow()["cube"].to_numpy(), dtype=np.int64)


def needed(towers: Ints, ways: Ints) -> Ints:
    """The tower cubes that can hold the tower nearest to a position in one of the way cubes (or half a side off)."""
    tower_cubes, open_ = _split(towers), _split(ways)
    keep = np.zeros(len(towers), dtype=bool)
    for level in range(_LEVELS):
        if not len(open_):
            break
        full = np.isin(_join(_up(open_, level)), _join(_up(tower_cubes, level)))
        around = _around(_up(open_[full], level + 1))
        keep |= np.isin(_join(_up(tower_cubes, level + 1)), around)
        open_ = open_[~full]
    # What is still open is farther from any tower than the Earth is wide: there are no towers.
    return towers[keep]


def _split(cube: Ints) -> Ints:
    mask = (1 << _BITS) - 1
    return np.column_stack((cube >> (2 * _BITS), (cube >> _BITS) & mask, cube & mask)) - _MIDDLE


def _join(xyz: Ints) -> Ints:
    x, y, z = (xyz + _MIDDLE).T
    return np.asarray((((x << _BITS) | y) << _BITS) | z)


def _up(xyz: Ints, level: int) -> Ints:
    return np.asarray(xyz // _UP**level)


def _around(xyz: Ints) -> Ints:
    """The cubes themselves and the 26 around each."""
    once = np.unique(xyz, axis=0)
    return np.unique(np.concatenate([_join(once + np.array(step)) for step in product((-1, 0, 1), repeat=3)]))
