"""Tower files, clean and dirty: what is usable is used, the rest is counted by reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from godwit.errors import DataError
from godwit.mobility.geo import pack, unpack
from godwit.mobility.towers import OPENCELLID, Towers, read_towers

from .feeds import write_towers


def _places(towers: Towers) -> dict[str, tuple[float, float]]:
    table = towers.frame.toArrow()
    lat, lon = unpack(table["place"].to_numpy())
    return {t: (round(a, 6), round(b, 6)) for t, a, b in zip(table["id"].to_pylist(), lat, lon, strict=True)}


def test_columns_in_any_order(spark: SparkSession, tmp_path: Path) -> None:
    text = "antennas,Longitude,name,extra,LATITUDE\n7,13.5,x,1,52.25\n3,13.6,y,,52.35\n"
    found = read_towers(spark, write_towers(tmp_path, text))
    assert _places(found) == {"x": (52.25, 13.5), "y": (52.35, 13.6)}
    assert (found.count, found.rows, found.rejected) == (2, 2, {})
    thinned = read_towers(spark, write_towers(tmp_path, text), min_antennas=5)
    assert _places(thinned) == {"x": (52.25, 13.5)}
    assert thinned.rejected == {"antennas < 5": 1}


@pytest.mark.parametrize("header", [True, False])
def test_opencellid_with_and_without_its_header(spark: SparkSession, tmp_path: Path, header: bool) -> None:
    rows = ["GSM,262,2,801,86355,0,13.285512,52.522202,1000,7,1,1282569574,1300155341,0"]
    rows += ["LTE,262,2,801,86355,0,13.29,52.53,1000,7,1,1282569574,1300155341,0"]
    rows += ["LTE,262,2,,86355,0,13.29,52.53,1000,7,1,1282569574,1300155341,0"]
    path = tmp_path / "262.csv.gz"
    path.write_bytes(gzip.compress("\n".join(([",".join(OPENCELLID)] if header else []) + rows).encode()))
    found = read_towers(spark, path)
    assert _places(found) == {"GSM-262-2-801-86355": (52.522202, 13.285512), "LTE-262-2-801-86355": (52.53, 13.29)}
    assert found.rejected == {"no id": 1}


def test_dirty_rows_are_counted_by_reason(spark: SparkSession, tmp_path: Path) -> None:
    rows = [f"{i},52.{i:02d},13.{i:02d}" for i in range(40, 60)]
    rows += ["swapped,13.5,52.5", "swapped off the globe,113.5,52.5", "far but fine,48.1,11.5"]
    rows += [
        "none,,13.4",
        "text,here,13.4",
        "nan,NaN,13.4",
        "beyond,52.5,213.4",
        "zero,0,0",
        ",52.5,13.5",
        " ,52.5,13.5",
    ]
    rows += ["40,52.9,13.9", "short,52.5", '"quoted, with comma",52.61,13.61']
    found = read_towers(spark, write_towers(tmp_path, "\n".join(["id,lat,lon", *rows]) + "\n"))
    assert found.rejected == {
        "latitude and longitude swapped": 2,
        "coordinate missing or not a number": 4,
        "coordinate off the globe": 1,
        "at 0, 0": 1,
        "no id": 2,
        "id seen before": 1,
    }
    places = _places(found)
    assert places["40"] == (52.4, 13.4)
    assert places["quoted, with comma"] == (52.61, 13.61)
    assert "far but fine" in places
    assert found.rows == len(rows) == found.count + sum(found.rejected.values())


def test_parquet(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"site_id": [1, 2], "lat": [52.0, 53.0], "lon": [13.0, 14.0]}), tmp_path / "t.parquet")
    assert _places(read_towers(spark, tmp_path / "t.parquet")) == {"1": (52.0, 13.0), "2": (53.0, 14.0)}


def test_spark_packs_places_as_numpy_does(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lat, lon = rng.uniform(40, 60, 500), rng.uniform(0, 20, 500)
    rows = [f"{i},{a!r},{b!r}" for i, (a, b) in enumerate(zip(lat.tolist(), lon.tolist(), strict=True))]
    table = read_towers(spark, write_towers(tmp_path, "\n".join(["id,lat,lon", *rows]))).frame.toArrow()
    order = np.argsort([int(i) for i in table["id"].to_pylist()])
    assert np.array_equal(table["place"].to_numpy()[order], pack(lat, lon))


def test_files_of_no_use(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file; give the towers as CSV"):
        read_towers(spark, tmp_path / "none.csv")
    with pytest.raises(
        DataError, match="no column for an id and a longitude among what, lat; name them id, lat and lon"
    ):
        read_towers(spark, write_towers(tmp_path, "what,lat\n1,2\n"))
    with pytest.raises(DataError, match="needs a column 'antennas'"):
        read_towers(spark, write_towers(tmp_path), min_antennas=3)
    with pytest.raises(DataError, match="no usable tower \\(it has no rows\\)"):
        read_towers(spark, write_towers(tmp_path, "id,lat,lon\n"))
    with pytest.raises(DataError, match="no usable tower \\(2 x coordinate missing or not a number\\)"):
        read_towers(spark, write_towers(tmp_path, "id,lat,lon\n1,,\n2,x,y\n"))
    with pytest.raises(DataError, match="no column for an id"):
        read_towers(spark, write_towers(tmp_path, ""))
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match="cannot be read as text"):
        read_towers(spark, tmp_path / "t.csv")
