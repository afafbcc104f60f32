"""Shapes: formatting, names and literals do not matter; everything else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import SqlError
from godwit.ids import QueryId
from godwit.model.plan import Query
from godwit.sql import compile_query
from godwit.sql.dialect import parse, text
from godwit.sql.hinted import hinted
from tests.sql.fixtures import good_files, good_sql
from tests.sql.streams import STREAMS


def compiled(sql: str, name: str = "q") -> Query:
    return compile_query(sql, STREAMS, QueryId(name))


@pytest.mark.parametrize("path", good_files(), ids=lambda path: path.stem)
def test_formatting_does_not_matter(path: Path) -> None:
    sql, _ = good_sql(path)
    (tree,) = parse(sql)
    assert tree is not None
    texts = [sql, text(tree), text(tree, pretty=True), tree.sql("spark", normalize_functions="lower")]
    keys = {compiled(other, name).shape.key for other, name in zip(texts, "abcd", strict=True)}
    assert len(keys) == 1


ints = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


QUERIES = [
    "SELECT train, boarded * {a} AS x, ts FROM passengers WHERE train = {s} AND boarded > {b} AND coach + {c} <> {d}",
    "SELECT train, sum(boarded + {a}) AS s FROM passengers WHERE train IN ({s}, {t}) AND boarded BETWEEN {b} AND {c} "
    "GROUP BY train, window(ts, '10 seconds') HAVING s > {d}",
    "SELECT p.train, d.ts FROM passengers p JOIN doors d ON p.train = d.train AND p.ts = d.ts "
    "AND p.coach + {a} < d.coach WHERE p.train = {s} AND d.note >= {t} AND d.opened > {b}",
    "SELECT m FROM (SELECT max(boarded) - {a} AS m, window.end AS e FROM passengers WHERE coach < {b} "
    "GROUP BY window(ts, '10 seconds')) w WHERE m % {c} = {d}",
]


@given(st.sampled_from(QUERIES), st.tuples(ints, ints, ints, ints), texts, texts)
@settings(deadline=None)
def test_literals_do_not_matter(template: str, numbers: tuple[int, int, int, int], s: str, t: str) -> None:
    def fill(a: int, b: int, c: int, d: int, s: str, t: str) -> Query:
        return compiled(template.format(a=a, b=b, c=c, d=d, s=quoted(s), t=quoted(t)))

    one, two = fill(*numbers, s, t), fill(1, 2, 3, 4, "x", "y")
    assert one.shape.key == two.shape.key
    assert len(one.parameters) == len(two.parameters) == len(one.shape.parameters)
    assert {str(n) for n in numbers} >= {v for v in one.parameters if not v.startswith("'")}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("boarded > 1", "boarded >= 1"),
        ("boarded > 1", "alighted > 1"),
        ("boarded > 1", "boarded > 1.5"),
        ("boarded > 1.5", "boarded > 1.25"),
        ("boarded > 1", "boarded > 3000000000"),
        ("train LIKE 'a%'", "train LIKE 'b%'"),
        ("train = 'a'", "upper(train) = 'a'"),
        ("substring(train, 1) = 'a'", "substring(train, 2) = 'a'"),
        ("boarded > round(2.5, 0)", "boarded > round(2.5, 1)"),
        ("ts > ts - INTERVAL 1 SECOND", "ts > ts - INTERVAL 2 SECONDS"),
    ],
)
def test_what_does_matter(a: str, b: str) -> None:
    one, two = (compiled(f"SELECT train FROM passengers WHERE {part}") for part in (a, b))
    assert one.shape.key != two.shape.key


@pytest.mark.parametrize(
    ("literal", "kind"),
    [
        ("7", "int"),
        ("-2147483648", "int"),
        ("2147483648", "bigint"),
        ("9223372036854775808", "decimal(19,0)"),
        ("1.50", "decimal(3,2)"),
        ("0.05", "decimal(2,2)"),
        ("-.5", "decimal(1,1)"),
        ("100.", "decimal(3,0)"),
        ("1e3", "double"),
        ("2.5D", "double"),
        ("2.5F", "float"),
        ("7L", "bigint"),
        ("7S", "smallint"),
        ("7Y", "tinyint"),
        ("'x'", "string"),
    ],
)
def test_parameters_have_the_type_that_spark_gives_the_literal(literal: str, kind: str) -> None:
    query = compiled(f"SELECT train FROM passengers WHERE boarded > {literal}")
    assert [p.type for p in query.shape.parameters] == [kind]


def test_the_device_column_is_subscribed_before_others() -> None:
    query = compiled("SELECT ts FROM doors WHERE coach = 3 AND note = 'x' AND 'S41' = train")
    (index, scan), *_ = query.shape.plan.scans
    assert (scan.subscribe, query.subscriptions) == ("train", {index: ("'S41'",)})
    assert query.parameters == ("3", "'x'")


@pytest.mark.parametrize(
    "condition",
    [
        "coach = 'x'",
        "coach = 2.5",
        "coach = 3000000000",
        "train = 3",
        "open = true",
        "train IN ('a', NULL)",
        "coach = opened",
    ],
)
def test_what_is_no_subscription_stays_a_filter(condition: str) -> None:
    query = compiled(f"SELECT ts FROM doors WHERE {condition}")
    assert query.shape.plan.scans[0][1].subscribe is None
    assert not query.subscriptions


def test_one_value_and_several_make_one_shape() -> None:
    one, two = (compiled(f"SELECT ts FROM doors WHERE train {c}") for c in ("= 'a'", "IN ('b', 'c', 'b')"))
    assert one.shape.key == two.shape.key
    assert two.subscriptions == {0: ("'b'", "'c'")}


def test_integers_beside_decimals_stay() -> None:
    """Spark types `decimal / 3` by the literal's digits; a column in its place would change the result's scale."""
    query = compiled("SELECT cost / 3 AS third, at FROM temps WHERE cost > 100")
    assert query.parameters == ("100",)


def test_whether_the_order_matters_is_part_of_the_shape_where_each_row_is_answered() -> None:
    plain = "SELECT train, boarded FROM passengers WHERE boarded > 4"
    window = "SELECT train, count(*) AS n FROM passengers GROUP BY train, window(ts, '10 seconds')"
    both = f"{plain} UNION ALL SELECT train, alighted AS boarded FROM passengers"
    for sql in (plain, both):
        unordered = compiled(hinted(sql, order="none"))
        assert (compiled(sql).shape.plan.sink.ordered, unordered.shape.plan.sink.ordered) == (True, False)
        assert compiled(sql).shape.key != unordered.shape.key
    assert compiled(hinted(window, order="none")).shape.key == compiled(window).shape.key


def test_an_order_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SqlError, match="hint"):
        compiled("SELECT /*+ order('site') */ train, boarded FROM passengers")
