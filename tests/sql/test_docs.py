"""The examples in docs/sql.md do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from godwit.errors import SqlError
from godwit.ids import QueryId
from godwit.sql import Builder, compile_query, functions
from tests.sql.streams import STREAMS

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()


def _blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("sql", _blocks("sql"))
def test_examples_are_accepted(sql: str) -> None:
    assert compile_query(sql, STREAMS, QueryId("q")).shape.plan.operators


def test_the_refused_example_says_what_the_page_says() -> None:
    (sql,) = _blocks("sql refused")
    with pytest.raises(SqlError) as caught:
        compile_query(sql, STREAMS, QueryId("q"))
    assert all(f"    {line}" in PAGE for line in str(caught.value).splitlines())


def test_python_examples_compile() -> None:
    (code,) = _blocks("python")
    header, *examples = code.strip().split("\n\n")
    names: dict[str, object] = {}
    exec(header, names)
    for example in examples:
        built = eval(example, names)
        assert isinstance(built, Builder)
        assert built.compile(STREAMS, QueryId("q")).shape.plan.operators
    assert len(examples) == 2


def test_every_aggregate_is_on_the_page() -> None:
    missing = [name for name in functions.AGGREGATES if not re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE)]
    assert not missing
