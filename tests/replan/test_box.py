"""A box rebuilt under another tree makes the same rows: DuckDB runs the joins of both plans over random rows."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

from godwit.model.joins import OuterJoin
from godwit.model.plan import Filter, Join, Plan, Project, Query, Scan
from godwit.model.signature import filled
from godwit.replan.box import JoinBox, reordered
from godwit.replan.tracks import both, reach_us
from godwit.sql.orders import orders
from tests.replan.queries import STREAMS, compiled

BAND = "{x}.ts BETWEEN {y}.ts - INTERVAL {n} SECONDS AND {y}.ts + INTERVAL {m} SECONDS"


def _near(x: str, y: str, n: int = 2, m: int = 2) -> str:
    return BAND.format(x=x, y=y, n=n, m=m)


QUERIES = {
    "a chain": f"SELECT a.v, b.v AS bv, c.v AS cv, d.v AS dv FROM a JOIN b ON a.k = b.k AND {_near('b', 'a', 1, 1)} "
    f"JOIN c ON c.k = b.k AND {_near('c', 'b', 4, 5)} AND c.v > a.v + 1 JOIN d ON d.k2 = c.k2 AND {_near('d', 'b')} "
    "WHERE a.v > 0",
    "every pair": f"SELECT a.v, b.v AS bv, c.v AS cv FROM a JOIN b ON a.k = b.k AND {_near('b', 'a')} "
    f"JOIN c ON c.k = b.k AND {_near('c', 'b')} AND {_near('c', 'a', 3, 1)}",
    "a sum as key": f"SELECT a.v, b.v AS bv, c.v AS cv FROM a JOIN b ON a.k = b.k AND {_near('b', 'a')} "
    f"JOIN c ON c.k = b.k AND c.v = a.v + b.v AND {_near('c', 'a', 0, 3)}",
    "a sub-query": f"SELECT a.v, b.v AS bv, x.w FROM a JOIN b ON a.k = b.k AND {_near('b', 'a')} "
    f"JOIN (SELECT k, v * 2 AS w, ts FROM c WHERE v > 1) x ON x.k = a.k AND {_near('x', 'b', 5, 0)} AND x.w <> a.v",
    "half a band through another column": f"SELECT a.v, b.v AS bv, c.v AS cv FROM a JOIN b ON a.k = b.k AND "
    f"{_near('b', 'a')} JOIN c ON c.k = b.k AND c.ts BETWEEN a.ts AND b.ts + INTERVAL 3 SECONDS "
    "AND c.ts >= b.ts - INTERVAL 1 SECONDS",
    "five streams": f"SELECT a.v, b.v AS bv, c.v AS cv, d.v AS dv, e.v AS ev FROM a JOIN b ON a.k = b.k AND "
    f"{_near('b', 'a', 1, 1)} JOIN c ON c.k = a.k AND {_near('c', 'a', 1, 3)} JOIN d ON d.k = c.k AND "
    f"{_near('d', 'c', 0, 1)} JOIN e ON e.k = d.k AND {_near('e', 'a', 2, 2)} AND e.v >= b.v",
}


def _sql(plan: Plan, index: int, literals: tuple[str, ...]) -> str:
    operator = plan.operators[index]
    match operator:
        case Scan():
            columns = ", ".join(f"{c} AS {operator.alias}__{c}" for c in operator.columns)
            return f"SELECT {columns} FROM {operator.stream}"
        case Filter():
            below = _sql(plan, operator.inputs[0], literals)
            return f"SELECT * FROM ({below}) WHERE {filled(operator.predicate, literals)}"
        case Project():
            made = ", ".join(f"{filled(c.sql, literals)} AS {c.name}" for c in operator.columns)
            return f"SELECT {made} FROM ({_sql(plan, operator.inputs[0], literals)})"
        case Join():
            left, right = (_sql(plan, child, literals) for child in operator.inputs)
            time = f"epoch_us({operator.right_time}) - epoch_us({operator.left_time})"
            said = [f"{a} = {b}" for a, b in operator.keys]
            said += [f"{time} BETWEEN {operator.lower_us} AND {operator.upper_us}", operator.residual or "true"]
            on = filled(" AND ".join(f"({part})" for part in said), literals)
            return f"SELECT * FROM ({left}) JOIN ({right}) ON {on}"
    raise AssertionError(operator)


def rows_of(connection: duckdb.DuckDBPyConnection, query: Query) -> list[tuple[object, ...]]:
    plan = query.shape.plan
    sql = re.sub(r"INTERVAL '(\d+)' (\w+)", r"INTERVAL (\1) \2", _sql(plan, plan.sink.inputs[0], query.parameters))
    return sorted(connection.sql(sql).fetchall())


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    rng = random.Random(1)
    found = duckdb.connect()
    for name in "abcde":
        found.execute(f"CREATE TABLE {name} (k INT, k2 INT, v INT, ts TIMESTAMP)")
        rows = [
            f"({rng.randrange(2)}, {rng.randrange(2)}, {rng.randrange(4)}, make_timestamp({rng.randrange(20_000_000)}))"
            for _ in range(24)
        ]
        found.execute(f"INSERT INTO {name} VALUES {', '.join(rows)}")
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_every_order_makes_the_same_rows(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    query = compiled(QUERIES[name])
    box = JoinBox.of(query.shape.plan, STREAMS)
    expected = rows_of(connection, query)
    assert expected
    found = list(box.orders())
    assert len(found) > 2
    for tree in found:
        new = reordered(query, tree, STREAMS)
        assert rows_of(connection, new) == expected, str(tree)
        assert JoinBox.of(new.shape.plan, STREAMS).tree.same_order(tree)
        back = reordered(new, box.tree, STREAMS)
        assert rows_of(connection, back) == expected, f"{tree} and back"


@pytest.mark.parametrize("name", QUERIES)
def test_the_order_it_has_changes_nothing(name: str) -> None:
    query = compiled(QUERIES[name])
    assert reordered(query, JoinBox.of(query.shape.plan, STREAMS).tree, STREAMS) == query


def test_a_left_deep_order_is_what_the_compiler_makes() -> None:
    """Where no literal changes its number: so a join is shared with a query that was written in that order."""
    for query in (compiled(QUERIES["five streams"]), compiled(QUERIES["a sub-query"])):
        for written in orders(query, STREAMS):
            joins = [o for o in written.shape.plan.operators if isinstance(o, Join)]
            tree = JoinBox.of(written.shape.plan, STREAMS).tree
            ours = [o for o in reordered(query, tree, STREAMS).shape.plan.operators if isinstance(o, Join)]
            for a, b in zip(joins, ours, strict=True):
                times = {(a.left_time, a.left_lag_us), (a.right_time, a.right_lag_us)}
                assert times == {(b.left_time, b.left_lag_us), (b.right_time, b.right_lag_us)}
                assert sorted(a.lasts_us) == sorted(b.lasts_us)


def test_an_outer_join_is_a_leaf() -> None:
    """Only inner joins may be taken in any order: what a LEFT JOIN makes comes in as it is."""
    query = compiled(
        f"SELECT a.v, b.v AS bv, c.v AS cv, d.v AS dv FROM a LEFT JOIN b ON a.k = b.k AND {_near('b', 'a')} "
        f"JOIN c ON c.k = a.k AND {_near('c', 'a')} JOIN d ON d.k = c.k AND {_near('d', 'a')}"
    )
    box = JoinBox.of(query.shape.plan, STREAMS)
    assert {str(tree) for tree in box.orders()} == {
        "a+b JOIN c JOIN d",
        "a+b JOIN d JOIN c",
        "a+b JOIN (c JOIN d)",
    }
    new = reordered(query, box.order("(c JOIN d) JOIN a+b"), STREAMS).shape
    old = [s for s, op in zip(query.shape.signatures, box.plan.operators, strict=True) if isinstance(op, OuterJoin)]
    assert old == [s for s, op in zip(new.signatures, new.plan.operators, strict=True) if isinstance(op, OuterJoin)]


def test_subscriptions_go_with_their_scans() -> None:
    query = compiled(QUERIES["every pair"] + " WHERE c.k2 IN (1, 2)")
    (scan,) = query.subscriptions
    new = reordered(query, JoinBox.of(query.shape.plan, STREAMS).order("c JOIN b JOIN a"), STREAMS)
    (moved,) = new.subscriptions
    assert new.shape.plan.operators[moved] == query.shape.plan.operators[scan]
    assert new.subscriptions[moved] == query.subscriptions[scan]


def test_results_span_no_more_than_what_is_demanded_between_any_two_of_their_rows() -> None:
    """Not what the joins allow one after the other, where a further condition is narrower."""
    near = "{0}.ts BETWEEN {1}.ts - INTERVAL 4 SECONDS AND {1}.ts + INTERVAL 4 SECONDS"
    joins = f"FROM a JOIN b ON a.k = b.k AND {near.format('b', 'a')} JOIN c ON b.k = c.k AND {near.format('c', 'b')}"
    for more, seconds in (("", 8), (f" AND {near.format('c', 'a')}", 4)):
        old = compiled(f"SELECT a.v AS x, b.v AS y, c.v AS z {joins}{more}")
        tree = JoinBox.of(old.shape.plan, STREAMS).order("(b JOIN c) JOIN a")
        track = both(old, reordered(old, tree, STREAMS), STREAMS)
        assert reach_us(track, STREAMS) == seconds * 1_000_000
