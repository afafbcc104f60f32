"""Every allowed function means to Spark after our parsing what it meant before: Spark's own examples, run both ways."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlglot.errors import ParseError

from godwit.errors import SqlError
from godwit.sql import functions
from godwit.sql.dialect import parse, text
from godwit.sql.fault import Fault
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
    except (Fault, SqlError, ParseError):
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
