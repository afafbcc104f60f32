"""Totals of many keys: a micro-batch finds the partials of its keys by an index, and they are the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.engine import segments
from godwit.operators import lookup
from godwit.operators.key_index import KeyIndexes, hashes_of
from godwit.storage.place import Place
from godwit.storage.store import Store


def test_an_index_finds_the_rows_of_a_key_and_is_made_once(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"v{n % 700}" if n % 11 else None for n in range(5000)]
    table = pa.table({"name": pa.array(names), "lane": pa.array(np.arange(5000) % 3, pa.int32()), "n": range(5000)})
    place = Place(Store.local(tmp_path), "some")
    place.store.disk.make_folder("some")
    schema = spark.createDataFrame(table.slice(0, 0)).schema.json()
    segment = segments.write_table(table, place / "rows", schema, None, in_file=True)
    assert segment is not None
    assert segment.files
    indexes = KeyIndexes(most=1)
    wanted = pa.table({"name": pa.array(["v3", None, "nobody"]), "lane": pa.array([0, 1, 2], pa.int64())})
    hashes = np.unique(hashes_of(wanted, ["name", "lane"]))
    found = indexes.rows(segment, ["name", "lane"], hashes)
    rows = {(row["name"], row["lane"], row["n"]) for row in found.to_pylist()}
    asked = {("v3", 0), (None, 1)}
    assert rows == {(a, b, n) for a, b, n in zip(*table.to_pydict().values(), strict=True) if (a, b) in asked}
    assert indexes.rows(segment, ["name", "lane"], hashes).equals(found)
    assert indexes.rows(segment, ["lane"], hashes_of(wanted.slice(0, 1), ["lane"])).num_rows == 1667


def test_keys_are_found_in_every_segment_that_has_an_index(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "INDEXED", 1)
    place = Place(Store.local(tmp_path), "some")
    place.store.disk.make_folder("some")
    live = []
    for n in range(3):
        table = pa.table({"key": pa.array(range(100 * n, 100 * n + 100), pa.int64())})
        schema = spark.createDataFrame(table.slice(0, 0)).schema.json()
        live.append(segments.write_table(table, place / f"rows{n}", schema, None, in_file=True))
    fresh = pa.table({"key": pa.array([7, 107, 207], pa.int64())})
    values = {"key": fresh["key"].unique()}
    found = lookup._found(cast("Any", SimpleNamespace(live=live)), values, KeyIndexes(), [fresh])
    assert sorted(key for rows in found.values() for key in rows["key"].to_pylist()) == [7, 107, 207]
