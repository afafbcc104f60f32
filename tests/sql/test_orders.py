"""The same query in other join orders: which can run, and that they differ in nothing but the order."""

from __future__ import annotations

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column, Query, Scan, Stream
from godwit.sql import compile_query, orders

COLUMNS = tuple(Column(*c) for c in (("train", "string"), ("coach", "int"), ("load", "double"), ("ts", "timestamp")))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts", "train") for name in ("a", "b", "c")}


def near(x: str, y: str) -> str:
    return f"{x}.coach = {y}.coach AND {x}.ts BETWEEN {y}.ts - INTERVAL 1 SECOND AND {y}.ts + INTERVAL 2 SECONDS"


def compiled(sql: str) -> list[Query]:
    return list(orders(compile_query(sql, STREAMS, QueryId("q")), STREAMS))


def scans(query: Query) -> str:
    return "".join(o.stream for o in query.shape.plan.operators if isinstance(o, Scan))


CHAIN = f"SELECT a.load, b.load AS other, c.train, a.ts FROM a JOIN b ON {near('a', 'b')} JOIN c ON {near('b', 'c')}"


def test_every_order_that_keys_and_bands_allow_the_written_one_first():
    found = compiled(CHAIN + " WHERE a.load > 3 AND c.load < a.load")
    assert scans(found[0]) == "abc"
    assert sorted(map(scans, found)) == ["abc", "acb", "bac", "bca", "cab", "cba"]
    assert len({q.shape.key for q in found}) == len(found)
    assert {(q.oracle_sql, q.output) for q in found} == {(found[0].oracle_sql, found[0].output)}


def test_streams_that_nothing_joins_directly_do_not_come_first():
    sql = f"""SELECT a.load, c.load AS other, a.ts FROM a JOIN b ON {near("a", "b")}
              JOIN c ON c.train = b.train AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 1 SECOND"""
    assert sorted(map(scans, compiled(sql))) == ["abc", "bac", "bca", "cba"]


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_a_star_lists_columns_as_written(order):
    sql = f"SELECT x.*, y.train AS other, y.ts AS met FROM a x JOIN b y ON {near('x', 'y')}"
    query = compile_query(sql, STREAMS, QueryId("q"), order)
    assert query.output == ("train", "coach", "load", "ts", "other", "met")


def test_of_nested_queries_the_widest_from_is_reordered():
    sql = f"SELECT n, z.ts FROM (SELECT a.load AS n, a.ts FROM a JOIN b ON {near('a', 'b')}) z WHERE n > 2"
    assert sorted(map(scans, compiled(sql))) == ["ab", "ba"]
    assert len(compiled("SELECT load, ts FROM a")) == 1
