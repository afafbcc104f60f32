"""The fluent API builds SQL, and so the same plans."""

from __future__ import annotations

import pytest

from godwit.errors import SqlError, UnknownNameError
from godwit.ids import QueryId
from godwit.sql import Builder, compile_query, counting, hopping, session, stream, tumbling
from tests.sql.streams import STREAMS

Q = QueryId("q")


def assert_same(built: Builder, sql: str) -> None:
    ours, theirs = built.compile(STREAMS, Q), compile_query(sql, STREAMS, Q)
    assert ours.shape == theirs.shape
    assert ours.parameters == theirs.parameters
    assert ours.subscriptions == theirs.subscriptions
    assert ours.target == theirs.target


def test_filter_and_select() -> None:
    built = stream("passengers").where("boarded > 2", "train = 'S41'").select("train", "ts", double="boarded * 2")
    assert_same(built, "SELECT train, ts, boarded * 2 AS double FROM passengers WHERE boarded > 2 AND train = 'S41'")


def test_everything_by_default() -> None:
    assert_same(stream("doors"), "SELECT * FROM doors")


@pytest.mark.parametrize(
    ("window", "sql", "end"),
    [
        (tumbling("ts", "10 seconds"), "window(ts, '10 seconds')", "window.end"),
        (hopping("ts", "1 minute", "30 seconds"), "window(ts, '1 minute', '30 seconds')", "window.end"),
        (session("ts", "30 seconds"), "session_window(ts, '30 seconds')", "session_window.end"),
    ],
)
def test_windows(window: str, sql: str, end: str) -> None:
    built = (
        stream("passengers")
        .where("boarded + alighted > 2")
        .group_by("train", window)
        .agg(delta="sum(boarded) - sum(alighted)", until=end)
        .having("delta > 0")
    )
    assert_same(
        built,
        f"SELECT train, sum(boarded) - sum(alighted) AS delta, {end} AS until FROM passengers "
        f"WHERE boarded + alighted > 2 GROUP BY train, {sql} HAVING delta > 0",
    )


def test_join() -> None:
    built = (
        stream("passengers", "p")
        .join("doors", alias="d", on=["train", "p.coach < d.coach"], within=("-10 seconds", "1 minute 30 seconds"))
        .join(stream("temps", "t"), on=["train"], within=("0 seconds", "5 seconds"), times=("ts", "at"))
        .select("p.train", "d.ts")
    )
    assert_same(
        built,
        "SELECT p.train, d.ts FROM passengers p JOIN doors d ON p.train = d.train AND p.coach < d.coach AND d.ts "
        "BETWEEN p.ts - INTERVAL 10 SECONDS AND p.ts + INTERVAL 90 SECONDS JOIN temps t ON p.train = t.train "
        "AND t.at BETWEEN p.ts AND p.ts + INTERVAL 5 SECONDS",
    )


def test_join_of_a_query() -> None:
    jams = stream("doors").where("note LIKE 'jam%'").select("train", "ts")
    assert_same(
        stream("passengers", "p").join(jams, alias="j", on=["train"], within=("0 seconds", "5 seconds")).select("j.ts"),
        "SELECT j.ts FROM passengers p JOIN (SELECT train, ts FROM doors WHERE note LIKE 'jam%') j "
        "ON p.train = j.train AND j.ts BETWEEN p.ts AND p.ts + INTERVAL 5 SECONDS",
    )


def test_nested_union_and_insert() -> None:
    inner = stream("passengers").group_by("train", tumbling("ts", "10 seconds")).agg(n="count(*)", until="window.end")
    built = (
        inner.alias("w")
        .group_by(tumbling("until", "1 minute"))
        .agg(most="max(n)", t="window.end")
        .union_all(stream("doors").select("opened", "ts"))
        .insert_into("peaks")
    )
    assert_same(
        built,
        "INSERT INTO peaks SELECT max(n) AS most, window.end AS t FROM (SELECT train, count(*) AS n, window.end AS "
        "until FROM passengers GROUP BY train, window(ts, '10 seconds')) w GROUP BY window(until, '1 minute') "
        "UNION ALL SELECT opened, ts FROM doors",
    )


def test_a_builder_is_never_changed() -> None:
    base = stream("passengers").where("boarded > 1")
    base.where("boarded > 2").select("train")
    assert base.sql() == stream("passengers").where("boarded > 1").sql()


def test_no_expression() -> None:
    with pytest.raises(SqlError, match=r"'boarded > ' is not an SQL expression"):
        stream("passengers").where("boarded > ")


def test_errors_point_into_the_sql_that_was_built() -> None:
    with pytest.raises(UnknownNameError, match=r"at: 2:3: trian"):
        stream("passengers").select("trian").compile(STREAMS, Q)


def test_totals_and_count_windows() -> None:
    totals = stream("passengers").group_by("train").agg(n="count(*)").having("n > 3").keep("1 day")
    assert_same(
        totals, "SELECT /*+ keep('1 day') */ train, count(*) AS n FROM passengers GROUP BY train HAVING count(*) > 3"
    )
    counted = stream("doors").group_by("train", counting("ts", 6, 2)).agg(n="sum(opened)")
    assert_same(counted, "SELECT train, sum(opened) AS n FROM doors GROUP BY train, count_window(ts, 6, 2)")
    assert counting("ts", 6) == "count_window(ts, 6)"
