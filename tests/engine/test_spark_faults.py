"""Spark's complaints about types come out as ours do: what is wrong, where it stands, what helps."""

from __future__ import annotations

import pytest

from godwit.engine.spark_faults import mismatch

CASES = [
    (
        "[WRONG_NUM_ARGS.WITHOUT_SUGGESTION] The `upper` requires 1 parameters but the actual number is 2. "
        "Please, refer to 'https://spark.apache.org/docs/latest/sql.html' for a fix. SQLSTATE: 42605; line 1 pos 7",
        "SELECT train,\n  UPPER(train, 1) AS u FROM passengers",
        "The `upper` requires 1 parameters but the actual number is 2.",
        "2:3: UPPER",
    ),
    (
        '[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] Cannot resolve "array_join(boarded, ,)" due to data type mismatch: '
        'The first parameter requires the "ARRAY<STRING>" type, however "boarded" has the type "INT". SQLSTATE: 42K09',
        "SELECT array_join(boarded, ',') AS a FROM passengers",
        "",
        "1:19: boarded",
    ),
    (
        "[DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION] Decimal precision 99 exceeds max precision 38. SQLSTATE: 22003",
        "SELECT CAST(train AS decimal(99,2)) AS f FROM passengers",
        "Decimal precision 99 exceeds max precision 38.",
        "1:1: SELECT CAST(train AS decimal(99,2)) AS f FROM passengers",
    ),
]


@pytest.mark.parametrize(("said", "sql", "problem", "place"), CASES)
def test_a_complaint_in_our_words(said: str, sql: str, problem: str, place: str) -> None:
    told = mismatch(said, sql)
    assert told.problem.startswith("Spark cannot type this query: ")
    assert told.problem.endswith(problem)
    assert "SQLSTATE" not in told.problem
    assert "http" not in told.problem
    assert told.place == place
    assert told.remedy
