"""Expressions mean to Spark after our parsing what they meant before: Spark's own examples, run both ways."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlglot.errors import ParseError

from godwit.errors import SqlError
from godwit.sql import functions
from godwit.sql.dialect import parse, text
from godwit.sql.fault import SqlFault
from godwit.sql.guard import guard

pytestmark = pytest.mark.full


def _examples(spark: Any, name: str) -> list[str]:
    jvm = spark.sparkContext._jvm
    try:
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        documented = spark._jsparkSession.sessionState().catalog().lookupFunctionInfo(identifier).getExamples()
    except Exception:
        return []  # syntax such as CASE, documented elsewhere
    found = re.findall(r"> (SELECT .*?);\s*$", documented, re.MULTILINE | re.DOTALL)
    return [" ".join(line.strip() for line in sql.splitlines()) for sql in found if " FROM VALUES" not in sql]


def _answer(spark: Any, sql: str) -> str:
    try:
        return str([tuple(row) for row in spark.sql(sql).collect()])
    except Exception as error:
        return f"error {str(error).splitlines()[0]}"


def _as_we_write_it(sql: str) -> str | None:
    try:
        (tree,) = parse(sql)
        assert tree is not None
        guard(tree, sql)
    except (SqlFault, SqlError, ParseError):
        return None  # refused with a message: the fixtures see to that
    return text(tree)


def test_documented_examples_give_the_same(spark: Any) -> None:
    wrong, compared = [], 0
    for name in sorted(functions.SCALAR):
        for sql in _examples(spark, name):
            ours = _as_we_write_it(sql)
            if ours is None:
                continue
            compared += 1
            before, after = _answer(spark, sql), _answer(spark, ours)
            if before != after and not before.startswith("error"):
                wrong.append((sql, ours, before, after))
    assert not wrong
    assert compared > 300


SYNTAX = [
    r"""SELECT 'a\%b', 'a\_b', 'a\\b', 'a\nb', 'a\'b', "it's", '\u0041', '\101', r'a\d', 'a\dqx', '\Z', '\\n', 'é😀'""",
    r"SELECT 'a%b' LIKE 'a\%b', 'axb' LIKE 'a\%b', 'a1' RLIKE 'a\\d', 'a/b' LIKE 'a//b' ESCAPE '/'",
    "SELECT 1e3, 1.5e-2, .5, 5., 1e3BD, 2.5BD, 10Y, 7S, 3.0F, X'1F', -0.0, 1E-5D, 3000000000, -2147483648",
    "SELECT 5 div 2, 5 % 3, -5 % 3, 7 / 2, 2 + 3 * 4 - 1, - (3 + 2), 1 - (2 - 3), 8 / (4 / 2), NOT true AND false",
    "SELECT 5 & 3 | 4 ^ 1, ~5, 1 << 2, 1 <=> NULL, 1 = 1 = true, 2 BETWEEN 1 AND 3 AND true, 1 NOT IN (2)",
    "SELECT CASE WHEN 1 > 0 THEN 'a' END, IF(1 > 2, 1, 2), CAST('1' AS DECIMAL(5,2)), '2020-01-01'::date",
    "SELECT CAST(map('a', 1) AS map<string,bigint>), CAST(named_struct('a', 1) AS struct<a:int>), array(1, 2)[1]",
    "SELECT NULL IS NULL, true IS NOT FALSE, 1 IS DISTINCT FROM 2, timestamp '2026-01-01 00:00:01' + INTERVAL 1 DAY",
]


@pytest.mark.parametrize("sql", SYNTAX)
def test_syntax_gives_the_same(spark: Any, sql: str) -> None:
    (tree,) = parse(sql)
    assert tree is not None
    before, after = spark.sql(sql), spark.sql(text(tree))
    assert [kind for _, kind in before.dtypes] == [kind for _, kind in after.dtypes]
    assert [tuple(row) for row in before.collect()] == [tuple(row) for row in after.collect()]
