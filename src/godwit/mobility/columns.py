"""geo.py once more, as Spark columns: places packed into one integer, and metres, without leaving the JVM."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from godwit.mobility.geo import EARTH_M

_SCALE = 10_000_000
_LON_BITS = 32


def pack_place(lat: Column, lon: Column) -> Column:
    """A place as one integer, as geo.pack does it."""
    north = sf.rint((lat + 90) * _SCALE).cast("long")
    east = sf.rint((lon + 180) * _SCALE).cast("long")
    return sf.shiftleft(north, _LON_BITS).bitwiseOR(east)


def place_lat(place: Column) -> Column:
    """The latitude of a packed place."""
    return sf.shiftright(place, _LON_BITS) / sf.lit(_SCALE) - 90


def place_lon(place: Column) -> Column:
    """The longitude of a packed place."""
    return place.bitwiseAND(sf.lit((1 << _LON_BITS) - 1)) / sf.lit(_SCALE) - 180


def metres_between(lat0: Column, lon0: Column, lat1: Column, lon1: Column) -> Column:
    """Great-circle distance; the haversine form keeps its digits when the points are close."""
    half = sf.pow(sf.sin(sf.radians(lat1 - lat0) / 2), 2)
    half = half + sf.cos(sf.radians(lat0)) * sf.cos(sf.radians(lat1)) * sf.pow(sf.sin(sf.radians(lon1 - lon0) / 2), 2)
    return sf.asin(sf.sqrt(sf.least(half, sf.lit(1.0)))) * (2 * EARTH_M)


def number(text: Column) -> Column:
    """A text as a number, null if it is none (also for NaN)."""
    value = sf.trim(text).try_cast("double")
    return sf.when(sf.isnan(value), None).otherwise(value)
