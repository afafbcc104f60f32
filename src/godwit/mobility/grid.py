"""The grid join: which of a country's towers can be nearest to any position of the trips at all.

Space is cut into cells of 0.013 degrees (about 1.5 km). Spark finds the cells with towers and the cells the trips pass
through; how far the nearest tower of a passed cell can be follows from the cells alone; Spark then keeps the towers in
the cells within that reach, empty country included. What is kept is exact, as tests against all towers show.

For trips that pass everywhere it would keep nearly everything and cost more than it saves, so it is done only if they
pass through few cells. The two limits below are estimates, not measured break-even points.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from scipy.spatial import cKDTree

from godwit.mobility.columns import metres_between, pack_place
from godwit.mobility.geo import Floats, Ints, to_xyz, unpack

#: below this many towers, an index of all of them is cheaper than asking which ones matter
FROM_TOWERS = 200_000
#: passed cells up to which asking pays: some 8,000 km of track
TO_CELLS = 5_000

_SHIFT = 17  # a cell is 2^17 units of 1e-7 degrees wide
_ROW = 15  # and 2^15 of them are more than once around
_HALF_M = 1_040.0  # from a cell's middle to its corner, at the equator
_STEP_M = 700.0  # between two points looked at on a way
_REACH_M = 4 * _HALF_M + 2 * (_STEP_M / 2 + 50)


def relevant(towers: DataFrame, tower_count: int, segments: DataFrame) -> DataFrame:
    """The towers (with a `place`) that can be nearest to a position on a segment, or all if asking does not pay."""
    if tower_count < FROM_TOWERS:
        return towers
    starts = segments.select(cell_of(pack_place(sf.col("lat0"), sf.col("lon0"))).alias("cell"))
    if _many(starts):  # cheap to know, and enough to know that it does not pay
        return towers
    passed = _collect(way_cells(segments).distinct())
    with_cell = towers.withColumn("cell", cell_of(sf.col("place")))
    kept = needed(_collect(with_cell.select("cell").distinct()), passed)
    wanted = towers.sparkSession.createDataFrame(pa.table({"cell": kept}))
    return with_cell.join(sf.broadcast(wanted), "cell", "left_semi").drop("cell")


def _many(cells: DataFrame) -> bool:
    return cells.distinct().limit(TO_CELLS + 1).count() > TO_CELLS


def cell_of(place: Column) -> Column:
    """The cell of a packed place: the upper bits of its two halves."""
    north = sf.shiftright(place, 32 + _SHIFT)
    east = sf.shiftright(place.bitwiseAND(sf.lit((1 << 32) - 1)), _SHIFT)
    return sf.shiftleft(north, _ROW).bitwiseOR(east)


def way_cells(segments: DataFrame) -> DataFrame:
    """Cells of points on the segments, `_STEP_M` apart or less."""
    names = ("lat0", "lon0", "lat1", "lon1")
    steps = sf.ceil(metres_between(*(sf.col(c) for c in names)) / _STEP_M).cast("int")
    ways = segments.select(*names).withColumn("n", sf.greatest(steps, sf.lit(1)))
    points = ways.select(*names, "n", sf.explode(sf.sequence(sf.lit(0), "n")).alias("i"))
    part = sf.col("i") / sf.col("n")
    lat = sf.col("lat0") + part * (sf.col("lat1") - sf.col("lat0"))
    lon = sf.col("lon0") + part * ((sf.col("lon1") - sf.col("lon0") + 540) % 360 - 180)
    # A way across the date line leaves the range of longitudes.
    return points.select(cell_of(pack_place(lat, sf.pmod(lon + 180, sf.lit(360.0)) - 180)).alias("cell"))


def _collect(cells: DataFrame) -> Ints:
    return np.asarray(cells.toArrow()["cell"].to_numpy(), dtype=np.int64)


def needed(towers: Ints, passed: Ints) -> Ints:
    """The tower cells that can hold the tower nearest to a position near one of the passed cells.

    A position is no farther than h + g from the middle of a passed cell (h: half a cell, g: half a step on the way).
    If the middle of the nearest tower cell is d away, the nearest tower is within d + 2h + g of the position, and the
    middle of its cell within d + 4h + 2g of the middle of the passed one.
    """
    if not len(towers) or not len(passed):
        return towers[:0]
    middles, ways = _middle(towers), _middle(passed)
    reach = cKDTree(middles).query(ways)[0] + _REACH_M
    keep = np.zeros(len(towers), dtype=bool)
    # Passed cells of about one reach are asked together, with the larger reach.
    rank = np.ceil(np.log2(reach / _REACH_M)).astype(np.int64)
    for r in np.unique(rank):
        near = cKDTree(ways[rank == r]).query(middles, distance_upper_bound=_REACH_M * 2.0**r * 1.0001)[0]
        keep |= np.isfinite(near)
    return towers[keep]


def _middle(cell: Ints) -> Floats:
    half = 1 << (_SHIFT - 1)
    north = ((cell >> _ROW) << _SHIFT) + half
    east = ((cell & ((1 << _ROW) - 1)) << _SHIFT) + half
    return to_xyz(*unpack((north << 32) | east))
