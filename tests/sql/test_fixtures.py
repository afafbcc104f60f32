"""What the front end accepts, with the plan it makes, and what it refuses, with place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from godwit.errors import SqlError
from godwit.ids import QueryId, StreamId
from godwit.sql import compile_query, functions
from tests.sql.fixtures import Bad, actual, bad_cases, explained, good_files, good_sql
from tests.sql.streams import STREAMS


@pytest.mark.parametrize("path", good_files(), ids=lambda path: path.stem)
def test_accepted(path: Path) -> None:
    sql, expected = good_sql(path)
    assert explained(sql, path.stem) == expected


@pytest.mark.parametrize("case", bad_cases(), ids=lambda case: case.id)
def test_refused(case: Bad) -> None:
    assert case.expected
    assert actual(case.sql) == case.expected
    assert case.expected["remedy"]


@pytest.mark.parametrize("name", sorted(functions.REFUSED))
def test_every_refused_function_is_refused_with_its_reason(name: str) -> None:
    """However many arguments it is given; sqlglot itself refuses wrong numbers for some."""
    answers = [actual(f"SELECT {name}({given}) AS x FROM passengers") for given in ("", "train", "train, train")]
    assert all(answers)
    reason = functions.REFUSED[name]
    fitting = [a for a in answers if a["says"].endswith(f"() {reason.why}") and a["remedy"] == reason.remedy]
    assert fitting
    assert fitting[0]["at"].startswith("1:8: ")


def test_no_function_is_both_allowed_and_refused() -> None:
    assert not functions.ALLOWED & set(functions.REFUSED)


def test_the_message_has_problem_place_and_remedy() -> None:
    with pytest.raises(SqlError) as caught:
        compile_query("SELECT trian\nFROM passengers", STREAMS, QueryId("q"))
    problem, place, remedy = str(caught.value).splitlines()
    assert problem == "there is no column 'trian' in passengers"
    assert place.strip() == "at: 1:8: trian"
    assert remedy.strip() == "remedy: did you mean 'train'?"


def test_no_streams_declared() -> None:
    with pytest.raises(SqlError, match="declare it first"):
        compile_query("SELECT a FROM b", {}, QueryId("q"))


def test_insert_gives_the_select_to_the_oracle() -> None:
    query = compile_query("INSERT INTO d SELECT train, ts FROM passengers", STREAMS, QueryId("q"))
    assert query.target == StreamId("d")
    assert query.oracle_sql == "SELECT train, ts FROM passengers"
    assert (query.shape.plan.sink.time, query.output) == ("ts", ("train", "ts"))
