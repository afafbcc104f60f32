"""The rule for values: nothing is lost on the way in, whether rows come as dicts, as a pandas frame or as Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from godwit.errors import SourceError
from godwit.ids import StreamId
from godwit.ingest.schema import Schema, columns_of
from godwit.ingest.sources.feeder import DEAD, judged
from godwit.model.plan import Stream

AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NOW_US = int(AT.timestamp() * 1e6)
DAY_US = 86_400_000_000


def schema(ddl: str, **options: Any) -> Schema:
    return Schema(Stream(StreamId("s"), columns_of(ddl), "ts", **options))


def dicts(rows: list[dict[str, Any]]) -> Any:
    return rows


def frame(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows)


def arrow(rows: list[dict[str, Any]]) -> Any:
    return pa.Table.from_pylist(rows)


FORMS = pytest.mark.parametrize("form", [dicts, frame, arrow])


@FORMS
@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("int", 3, 3),
        ("int", 3.0, 3),
        ("int", 1.5, None),
        ("int", "3", None),
        ("int", 2**40, None),
        ("int", True, None),
        ("bigint", 2**40, 2**40),
        ("double", 3, 3.0),
        ("double", 2**60 + 1, None),
        ("double", "3", None),
        ("string", "3", "3"),
        ("string", 3, None),
        ("boolean", True, True),
        ("boolean", 1, None),
        ("decimal(5,2)", Decimal("1.25"), Decimal("1.25")),
        ("decimal(5,2)", Decimal("1.255"), None),
        ("decimal(5,2)", 0.1, None),
        ("date", AT.date(), AT.date()),
        ("date", AT + dt.timedelta(hours=5), None),
        ("timestamp", "2026-01-01T00:00:00Z", None),
        ("timestamp", 1_700_000_000, None),
        ("array<int>", [1, 2], [1, 2]),
        ("array<int>", [1.5], None),
        ("struct<a:int>", {"a": 1}, {"a": 1}),
        ("struct<a:int>", {"a": 1.5}, None),
    ],
)
def test_a_value_is_taken_whole_or_not_at_all(
    spark: SparkSession, form: Callable[[list[dict[str, Any]]], Any], kind: str, value: Any, taken: Any
) -> None:
    found = schema(f"x {kind}, ts timestamp").conform(form([{"x": value, "ts": AT}]))
    if taken is None:
        assert found.table.num_rows == 0
        assert len(found.dead) == 1
        assert found.dead[0]["reason"]
    else:
        assert found.dead == []
        assert found.table.column("x").to_pylist() == [taken]


@FORMS
def test_the_other_rows_of_a_batch_go_on(spark: SparkSession, form: Callable[..., Any]) -> None:
    rows = [{"x": x, "ts": AT} for x in (1.0, 2.5, 3.0, None)]
    found = schema("x int, ts timestamp").conform(form(rows))
    assert found.table.column("x").to_pylist() == [1, 3, None]
    assert [d["reason"] for d in found.dead] == ["x: 2.5 is not a whole number"]


@pytest.mark.parametrize("year", [1, 1899, 2300, 9999])
def test_years_out_of_range_are_misfits(spark: SparkSession, year: int) -> None:
    rows = [{"ts": AT}, {"ts": AT.replace(year=year)}]
    found = schema("ts timestamp").conform(rows)
    assert found.table.num_rows == 1
    assert "1900 to 2299" in found.dead[0]["reason"]


def test_rows_from_too_far_ahead_are_misfits(spark: SparkSession) -> None:
    rows = [{"ts": AT + dt.timedelta(days=days)} for days in (-9000, 0.9, 1, 1.1)]
    bounded = schema("ts timestamp", ahead_us=DAY_US).conform(rows, now_us=NOW_US)
    assert bounded.table.num_rows == 3
    assert "ahead of the clock" in bounded.dead[0]["reason"]
    assert "ahead=None" in bounded.dead[0]["reason"]
    assert schema("ts timestamp").conform(rows, now_us=NOW_US).dead == []


def test_whose_row_it_is(spark: SparkSession) -> None:
    trains = schema("train string, ts timestamp", device="train")
    found = trains.conform([{"train": "x", "ts": AT}, {"train": "y", "ts": AT}, {"ts": AT}], "x")
    assert found.table.column("train").to_pylist() == ["x", "x"]
    assert "names another device than 'x'" in found.dead[0]["reason"]
    assert trains.conform(pa.table({"ts": [AT]}), "x").table.column("train").to_pylist() == ["x"]
    assert "sender's name" in trains.conform([{"ts": AT}]).dead[0]["reason"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"ts": AT}],
        ({"ts": AT},),
        {"ts": AT},
        (row for row in [{"ts": AT}]),
        pa.table({"ts": [AT]}),
        pa.record_batch({"ts": [AT]}),
        pd.DataFrame({"ts": [AT]}),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_in_any_sensible_form(spark: SparkSession, rows: Any) -> None:
    assert schema("ts timestamp").conform(rows).table.num_rows == 1


@pytest.mark.parametrize("rows", [None, "text", b"bytes", 7, 1.5, object()])
def test_what_is_no_rows_is_refused_with_the_remedy(spark: SparkSession, rows: Any) -> None:
    with pytest.raises(SourceError, match="push a list of dicts"):
        schema("ts timestamp").conform(rows)


def test_a_list_of_something_else_is_all_misfits(spark: SparkSession) -> None:
    found = schema("ts timestamp").conform([1, "a", {"ts": AT}, None])
    assert found.table.num_rows == 1
    assert len(found.dead) == 3


def test_spark_judges_by_the_same_rule(spark: SparkSession) -> None:
    """Recorded files and Spark's sources are cast by a Spark plan, not by Arrow."""
    wanted = schema("x int, ts timestamp", ahead_us=DAY_US)
    values = "VALUES (1.0D, '2026-01-01'), (1.5D, '2026-01-01'), (2.0D, '9999-01-01'), (3.0D, '2026-01-03') AS t(x, d)"
    rows = spark.sql(f"SELECT x, CAST(d AS timestamp) AS ts FROM {values}")
    told = [row[DEAD] for row in judged(rows, wanted, NOW_US).collect()]
    assert told[0] is None
    assert "x is not a int" in told[1]
    assert "1900 to 2299" in told[2]
    assert "ahead of the clock" in told[3]
    text = spark.sql("SELECT x, '2026-01-01' AS ts FROM VALUES ('3'), ('1.5'), ('few') AS t(x)")
    assert [row[DEAD] is None for row in judged(text, wanted, NOW_US).collect()] == [True, False, False]


@pytest.mark.parametrize("sender", [None, "a"])
def test_the_short_way_for_rows_that_fit_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, sender: str | None
) -> None:
    """Every pair of a good and a doubtful row: the same rows are taken, with the same reasons for the others."""
    stream = schema("device string, n int, ts timestamp", device="device", ahead_us=DAY_US)
    times = [AT, AT + dt.timedelta(days=1), AT + dt.timedelta(days=2), dt.datetime(1850, 1, 1, tzinfo=dt.UTC), None]
    doubtful = [{"device": device, "n": 1, "ts": at} for device in ("a", "b", None) for at in times]
    batches = [[], *([{"device": "a", "n": 0, "ts": AT}, row] for row in doubtful)]
    short = [stream.conform(rows, sender, NOW_US) for rows in batches]
    fits = [not found.dead for found in short]
    monkeypatch.setattr(Schema, "_all_fit", lambda *_: False)
    long = [stream.conform(rows, sender, NOW_US) for rows in batches]
    assert [(found.table.to_pylist(), found.dead) for found in short] == [
        (found.table.to_pylist(), found.dead) for found in long
    ]
    assert True in fits
    assert False in fits
