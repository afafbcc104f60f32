"""Aggregates that are written anew, so that they have one answer, give one that Spark's own would give."""

from __future__ import annotations

import random
from typing import Any

from godwit.ids import QueryId
from godwit.sql import compile_query
from tests.sql.streams import STREAMS
from tests.sql.test_plan_means_the_query import START, tables

__all__ = ["tables"]

#: those to which Spark has one answer, too
SAME = (
    "percentile_approx(boarded, 0.9)",
    "approx_percentile(boarded, array(0.0, 0.33, 1.0))",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY alighted)",
    "percentile_disc(0.3) WITHIN GROUP (ORDER BY alighted DESC)",
    "mode() WITHIN GROUP (ORDER BY coach)",
    "sort_array(collect_set(coach))",
    "sort_array(collect_list(boarded))",
    "listagg(string(coach), '-') WITHIN GROUP (ORDER BY coach)",
    "listagg(DISTINCT train, '+')",
    "max(DISTINCT boarded)",
)


def test_the_answers_are_spark_s(tables: Any) -> None:
    calls = ", ".join(f"{call} AS a{number}" for number, call in enumerate(SAME))
    rest = "FROM passengers GROUP BY train, window(ts, '20 seconds')"
    sql = f"SELECT train, {calls}, window.end AS until {rest}"
    written = compile_query(sql, STREAMS, QueryId("q")).oracle_sql
    found, wanted = (tables.sql(text).orderBy("train", "until") for text in (written, sql))
    assert found.dtypes == wanted.dtypes
    assert found.collect() == wanted.collect()


def test_a_list_follows_time_and_then_the_values(tables: Any) -> None:
    rng = random.Random(5)
    rows = [("t", rng.randrange(9), START.replace(second=rng.randrange(4))) for _ in range(40)]
    tables.createDataFrame(rows, "train string, opened int, ts timestamp").createOrReplaceTempView("listed")
    sql = "SELECT train, collect_list(opened) AS l FROM doors GROUP BY train, window(ts, '1 minute')"
    query = compile_query(sql, STREAMS, QueryId("q"))
    assert tables.sql(query.oracle_sql.replace("doors", "listed")).collect()[0].l == [
        n for _, n, _ in sorted(rows, key=lambda r: (r[2], r[1]))
    ]
