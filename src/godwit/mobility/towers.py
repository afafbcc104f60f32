"""Base stations from a file: OpenCelliD's columns, or any CSV (or Parquet) with an id, a latitude and a longitude.

Rows that cannot be used are counted by reason and left out. What remains is one row an id: (id, place), the place
packed into one integer, so that five million towers travel as one column.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from godwit.errors import DataError
from godwit.mobility.columns import number, pack_place

OPENCELLID = tuple(
    "radio mcc net area cell unit lon lat range samples changeable created updated averageSignal".split()  # noqa: SIM905
)
_LAT = ("lat", "latitude", "site_lat", "stop_lat")
_LON = ("lon", "lng", "long", "longitude", "site_lon", "stop_lon")
_ID = ("id", "site_id", "tower_id", "site", "tower", "cell_id", "cellid", "name")
_CELL = ("mcc", "net", "area", "cell")


@dataclass(frozen=True)
class Towers:
    """Usable towers and what was left out."""

    #: id string, place long; cached: call `frame.unpersist()` when done
    frame: DataFrame
    count: int
    rows: int
    rejected: Mapping[str, int]


def read_towers(spark: SparkSession, path: Path, min_antennas: int = 0) -> Towers:
    """Read, clean and count towers; DataError if the file has none that can be used."""
    parsed = _parse(_load(spark, path), path, min_antennas).persist(StorageLevel.MEMORY_AND_DISK)
    by_reason = parsed.groupBy("reason").agg(
        sf.count("*").alias("rows"),
        *(sf.percentile_approx(c, [0.25, 0.5, 0.75], 1000).alias(c) for c in ("lat", "lon")),
    )
    counts = {row["reason"]: row for row in by_reason.collect()}
    rows = sum(row["rows"] for row in counts.values())
    rejected = {reason: row["rows"] for reason, row in counts.items() if reason is not None}
    good = parsed.where("reason IS NULL")
    if None in counts:
        swapped = _swapped(counts[None])
        wrong = good.where(swapped).count()  # a look at a cached table
        if wrong:
            rejected["latitude and longitude swapped"] = rejected.get("latitude and longitude swapped", 0) + wrong
            good = good.where(~swapped)
    # The least place stands for a repeated id: any would do, but it must be the same one every time.
    towers = good.groupBy("id").agg(sf.min(pack_place(sf.col("lat"), sf.col("lon"))).alias("place"))
    towers = towers.persist(StorageLevel.MEMORY_AND_DISK)
    count = towers.count()
    repeated = rows - sum(rejected.values()) - count
    if repeated:
        rejected["id seen before"] = repeated
    parsed.unpersist()
    if not count:
        why = ", ".join(f"{n} x {reason}" for reason, n in sorted(rejected.items())) or "it has no rows"
        msg = f"{path}: no usable tower ({why}); check the file and --min-antennas"
        raise DataError(msg)
    return Towers(towers, count, rows, rejected)


def _load(spark: SparkSession, path: Path) -> DataFrame:
    if not path.exists():
        msg = f"{path}: there is no such file; give the towers as CSV (plain or .gz) or Parquet"
        raise DataError(msg)
    if path.suffix == ".parquet" or path.is_dir():
        frame = spark.read.parquet(str(path))
        return frame.select([sf.col(f"`{c}`").cast("string").alias(c) for c in frame.columns])
    names = _first_row(path) or ["(no header)"]
    headless = len(names) == len(OPENCELLID) and not ({n.lower() for n in names} & set(_LAT))
    # OpenCelliD's files of one country come without a header.
    schema = ", ".join(f"`{n}` STRING" for n in (OPENCELLID if headless else _distinct(names)))
    return spark.read.csv(str(path), schema=schema, header=not headless, escape='"')


def _first_row(path: Path) -> list[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="") as text
        ):
            return next(csv.reader(text), [])
    except (OSError, UnicodeDecodeError, EOFError) as error:
        msg = f"{path}: cannot be read as text ({error}); give a CSV (plain or .gz) or Parquet"
        raise DataError(msg) from error


def _distinct(names: list[str]) -> list[str]:
    """Header names, made distinct: a column without a name or with another's is kept out of the way."""
    seen: set[str] = set()
    found = []
    for i, name in enumerate(n.strip().replace("`", "") for n in names):
        free = name if name and name.lower() not in seen else f"column {i + 1}"
        seen.add(free.lower())
        found.append(free)
    return found


def _parse(frame: DataFrame, path: Path, min_antennas: int) -> DataFrame:
    """id, lat, lon and, where the row is of no use, the reason."""
    by_name = {name.lower(): sf.col(f"`{name}`") for name in frame.columns}
    lat, lon = _pick(by_name, _LAT), _pick(by_name, _LON)
    tower = _tower_id(by_name)
    missing = [what for what, c in (("an id", tower), ("a latitude", lat), ("a longitude", lon)) if c is None]
    if tower is None or lat is None or lon is None:
        msg = (
            f"{path}: no column for {' and '.join(missing)} among {', '.join(frame.columns)}; "
            f"name them id, lat and lon, or use OpenCelliD's columns"
        )
        raise DataError(msg)
    antennas = by_name.get("antennas")
    if min_antennas > 0 and antennas is None:
        msg = f"{path}: --min-antennas {min_antennas} needs a column 'antennas'; leave the option out"
        raise DataError(msg)
    few = number(antennas) < min_antennas if antennas is not None else sf.lit(False)
    parsed = frame.select(tower.alias("id"), number(lat).alias("lat"), number(lon).alias("lon"), few.alias("few"))
    return parsed.select("id", "lat", "lon", _reason(min_antennas).alias("reason"))


def _tower_id(by_name: Mapping[str, Column]) -> Column | None:
    if all(name in by_name for name in _CELL):
        parts = [by_name[n] for n in ("radio", *_CELL) if n in by_name]
        # concat_ws would skip a missing part and make two cells one.
        return sf.when(
            parts[-4].isNull() | parts[-3].isNull() | parts[-2].isNull() | parts[-1].isNull(), None
        ).otherwise(sf.concat_ws("-", *parts))
    return _pick(by_name, _ID)


def _pick(by_name: Mapping[str, Column], wanted: tuple[str, ...]) -> Column | None:
    return next((by_name[name] for name in wanted if name in by_name), None)


def _reason(min_antennas: int) -> Column:
    lat, lon = sf.col("lat"), sf.col("lon")
    return (
        sf.when(sf.col("id").isNull() | (sf.trim("id") == ""), "no id")
        .when(lat.isNull() | lon.isNull(), "coordinate missing or not a number")
        .when((sf.abs(lat) > 90) & (sf.abs(lat) <= 180) & (sf.abs(lon) <= 90), "latitude and longitude swapped")
        .when((sf.abs(lat) > 90) | (sf.abs(lon) > 180), "coordinate off the globe")
        .when((lat == 0) & (lon == 0), "at 0, 0")
        .when(
            sf.coalesce(sf.col("few"), sf.lit(True)) if min_antennas > 0 else sf.lit(False),
            f"antennas < {min_antennas}",
        )
    )


def _swapped(box: Row) -> Column:
    """A tower far from the bulk of the file that would be in its midst with its coordinates the other way round."""

    def inside(value: Column, axis: str) -> Column:
        low, middle, high = (float(x) for x in box[axis])
        reach = max(1.0, 5 * (high - low))
        return (value > middle - reach) & (value < middle + reach)

    lat, lon = sf.col("lat"), sf.col("lon")
    return ~(inside(lat, "lat") & inside(lon, "lon")) & inside(lon, "lat") & inside(lat, "lon")
