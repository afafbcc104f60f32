"""Which queries' results may leave wherever their rows are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model.explain import explain
from godwit.model.plan import Column, Query, Stream
from godwit.model.scattering import may_scatter, scattered
from godwit.sql import compile_query

COLUMNS = (Column("train", "string"), Column("speed", "int"), Column("ts", "timestamp"))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts", "train") for name in ("a", "b")}


def compiled(sql: str) -> Query:
    return compile_query(sql, STREAMS, QueryId("q"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT train, speed FROM a WHERE speed > 3",
        "SELECT train, upper(train) AS name, ts FROM a",
        "SELECT train, ts FROM a UNION ALL SELECT train, ts FROM b",
    ],
)
def test_what_answers_each_row_by_itself_may(sql: str) -> None:
    assert scattered(compiled(sql)).scattered
    assert "where a row is read" in explain(scattered(compiled(sql)))
    assert "where a row is read" not in explain(compiled(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT train, count(*) AS n FROM a GROUP BY train, window(ts, '10 seconds')",
        "SELECT /*+ keep('1 day') */ train, count(*) AS n FROM a GROUP BY train",
        "SELECT a.train FROM a JOIN b ON a.train = b.train AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS",
        "SELECT train, sum(speed) OVER (PARTITION BY train ORDER BY ts) AS total FROM a",
    ],
)
def test_what_keeps_rows_does_not(sql: str) -> None:
    assert not may_scatter(compiled(sql))
    assert scattered(compiled(sql)) == compiled(sql)


def test_neither_does_what_others_read_as_a_stream() -> None:
    passing = compiled("SELECT train, speed, ts FROM a WHERE speed > 3")
    assert not may_scatter(replace(passing, target=StreamId("fast")))
    assert not may_scatter(replace(passing, cut=1))
