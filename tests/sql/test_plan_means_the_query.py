"""A plan, run literally, gives what Spark gives for the query as written, over the same random rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from godwit.ids import QueryId
from godwit.model.plan import arrival_view
from godwit.sql import compile_query
from tests.sql import batch
from tests.sql.fixtures import good_files, good_sql
from tests.sql.streams import STREAMS

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMAS = {name: ", ".join(f"{c.name} {c.type}" for c in s.columns) for name, s in STREAMS.items()}


def _value(name: str, kind: str, rng: random.Random) -> Any:
    values: dict[str, Any] = {
        "train": rng.choice(["S41-1", "S41-7", "s42-2"]),
        "sensor": rng.choice(["a", "b"]),
        "id": rng.choice(["S41-1", "S41-7", "s42-2"]),
        "model": rng.choice(["x", "y", None]),
        "note": rng.choice(["jam", "jammed", "fine", None]),
        "cost": None if rng.random() < 0.1 else round(rng.uniform(0, 300), 2),
        "place": (rng.uniform(52, 53), rng.uniform(13, 14)),
        "samples": [rng.randrange(6) for _ in range(3)],
    }
    if kind == "timestamp":
        return START + dt.timedelta(milliseconds=rng.randrange(0, 120_000, 250))
    if kind == "boolean":
        return rng.choice([True, False] if name.startswith("__") else [True, False, None])
    if kind == "bigint":
        return rng.randrange(1 << 40)
    if kind == "double":
        return rng.uniform(0, 5)
    if kind.startswith("decimal"):
        return None if values["cost"] is None else Decimal(str(values["cost"]))
    return values.get(name, rng.choice([None, *range(12)]) if kind == "int" else None)


@pytest.fixture(scope="module")
def tables(spark: Any) -> Iterator[Any]:
    rng = random.Random(20260101)
    for name, stream in STREAMS.items():
        rows = [tuple(_value(c.name, c.type, rng) for c in stream.columns) for _ in range(60)]
        frame = spark.createDataFrame(rows, SCHEMAS[name]).coalesce(1).cache()
        frame.createOrReplaceTempView(str(name))
        arrived = frame.selectExpr("*", f"{stream.time} + INTERVAL 7 SECONDS AS _arrived")
        arrived.createOrReplaceTempView(arrival_view(name))
        arrived.where(f"second({stream.time}) % 2 = 0").createOrReplaceTempView(arrival_view(name, late=True))
    yield spark
    for name in STREAMS:
        spark.catalog.uncacheTable(str(name))
        spark.catalog.dropTempView(str(name))


def _rows(frame: Any) -> list[str]:
    """Rows in a fixed order, floats to 9 digits: partial sums are added in another order."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.9g}")
        return [plain(v) for v in value] if isinstance(value, list | tuple) else value

    return sorted(str([plain(v) for v in row]) for row in frame.collect())


#: one of each kind; `make test-full` runs the rest
SOON = (
    "arrival_window",
    "table_system_time",
    "aggregate_filter",
    "count_window",
    "count_window_slide",
    "over_ahead",
    "over_range",
    "over_rows",
    "over_so_far",
    "over_subquery",
    "over_kept",
    "over_twice",
    "count_window_kept",
    "running_subquery",
    "count_window_subquery",
    "running_kept",
    "running_total",
    "as_written",
    "asof_older",
    "asof_streams",
    "table_aggregate",
    "table_join",
    "table_left",
    "decimals",
    "distinct_by_window",
    "every_aggregate",
    "filter_project",
    "hopping",
    "join_band",
    "join_anti",
    "join_full",
    "join_half_between",
    "join_inner_then_left",
    "join_left",
    "join_outer_of_aggregates",
    "join_right",
    "join_semi",
    "join_through_a_column",
    "join_chain",
    "join_same_window",
    "key_expression",
    "literals",
    "nested_aggregate",
    "session",
    "union_aggregate",
    "table_function_hop",
    "group_by_date_trunc",
    "service_day",
    "window_offset_hopping",
    "lateral_view",
    "lateral_map",
    "explode",
    "statistics",
    "split_index",
    "rank_in_window",
    "rank_qualify",
    "rank_then_window",
    "latest_row",
    "top_rows",
    "collected",
    "collected_hopping",
    "collected_over",
    "collected_rows",
    "percentile_exact",
    "running_set",
    "rollup",
    "cube",
    "grouping_sets",
    "limit_by",
    "distinct_kept",
    "distinct_time",
)
CASES = [pytest.param(path, id=path.stem, marks=() if path.stem in SOON else pytest.mark.full) for path in good_files()]


@pytest.mark.parametrize("path", CASES)
def test_plan_gives_what_the_query_gives(tables: Any, path: Path) -> None:
    sql, _ = good_sql(path)
    query = compile_query(sql, STREAMS, QueryId(path.stem))
    oracle = tables.sql(query.oracle_sql)
    ours = batch.run(tables, query)
    assert ours.columns == list(query.output) == oracle.columns
    assert _rows(ours) == _rows(oracle)
    assert [t for _, t in ours.dtypes] == [t for _, t in oracle.dtypes]
