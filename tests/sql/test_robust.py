"""Whatever the text, the front end answers with a query or with an SqlError that has place and remedy."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import SqlError
from godwit.ids import QueryId
from godwit.sql import compile_query
from godwit.sql.dialect import PlainSpark
from tests.sql.fixtures import bad_cases, good_files, good_sql
from tests.sql.streams import STREAMS


def _words(sql: str) -> list[str]:
    try:
        return [sql[t.start : t.end + 1] for t in PlainSpark().tokenize(sql)]
    except Exception:
        return sql.split()


RAW = [good_sql(path)[0] for path in good_files()] + [case.sql for case in bad_cases()]
TEXTS = [_words(sql) for sql in RAW]
POOL = sorted({word for words in TEXTS for word in words})


def refusal(sql: str) -> SqlError | None:
    try:
        compile_query(sql, STREAMS, QueryId("q"))
    except SqlError as error:
        return error
    return None


def answers(sql: str) -> None:
    error = refusal(sql)
    assert error is None or (error.place and error.remedy)


@given(st.data())
@settings(deadline=None, max_examples=400)
def test_shuffled_queries(data: st.DataObject) -> None:
    words = list(data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        if not words:
            break
        at = data.draw(st.integers(0, len(words) - 1))
        match data.draw(st.sampled_from(["drop", "put", "replace", "swap"])):
            case "drop":
                words.pop(at)
            case "put":
                words.insert(at, data.draw(st.sampled_from(POOL)))
            case "replace":
                words[at] = data.draw(st.sampled_from(POOL))
            case "swap":
                other = data.draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
    answers(" ".join(words))


@given(st.text(max_size=40))
@settings(deadline=None)
def test_any_text(text: str) -> None:
    answers(text)
    answers(f"SELECT {text} FROM passengers")


@pytest.mark.parametrize("depth", [50, 5000])
def test_deep_nesting(depth: int) -> None:
    answers(f"SELECT {'(' * depth}coach{')' * depth} AS c FROM passengers")


@pytest.mark.parametrize(
    "sql", ["SELECT coach AS `` FROM passengers", "SELECT `` FROM passengers", "SELECT p.'' FROM passengers p"]
)
def test_an_empty_name_is_refused(sql: str) -> None:
    error = refusal(sql)
    assert error is not None
    assert error.place
    assert "empty" in error.problem


BITS = [
    "``",
    "`a.b`",
    "''",
    "NULL",
    "*",
    "()",
    ".",
    "@",
    "::",
    "AS ``",
    "1e999",
    "{{",
    "$1",
    "?",
    ":p",
    "\\",
    "\n",
    "--",
]
BITS += ["/*", ";", "\x00", "INTERVAL", "window.end", "[0]", "LATERAL VIEW", "CASE", "END", "=>", "x ->", "EXISTS", "ÿ"]


@pytest.mark.parametrize("seed", range(300))
def test_damaged_queries(seed: int) -> None:
    """Characters cut out, foreign pieces put in: whatever comes of it, no traceback."""
    rng = random.Random(seed)
    sql = rng.choice(RAW)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(sql) + 1)
        piece = f" {rng.choice(BITS)} " if rng.random() < 0.6 else ""
        sql = sql[:at] + piece + sql[at + rng.choice((0, 0, 3, 8)) :]
    answers(sql)
