"""What a query taps of those that run: pure decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import Column, Join, Query, Stream
from godwit.model.taps import apart, can_be_tapped, ends, executor, find, together
from godwit.sql import compile_query

COLUMNS = tuple(Column(*c) for c in (("train", "string"), ("coach", "int"), ("load", "double"), ("ts", "timestamp")))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts", "train") for name in ("l", "r")}
BAND = "l.coach = r.coach AND l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 2 SECONDS"
WINDOW = (
    "SELECT coach, count(*) AS n FROM l WHERE load > {} GROUP BY coach, window(ts, '5 seconds') HAVING count(*) > {}"
)
JOIN = f"SELECT l.train, r.load + {{1}} AS more FROM l JOIN r ON {BAND} WHERE l.load > {{0}}"
NESTED = """SELECT coach, sum(n) AS n FROM (SELECT coach, train, count(*) AS n, window.end AS ts FROM l WHERE load > {}
            GROUP BY coach, train, window(ts, '5 seconds')) GROUP BY coach, window(ts, '{} seconds')"""
BOTH = f"""SELECT l.coach, sum(r.load + {{1}}) AS n FROM l JOIN r ON {BAND} WHERE l.load > {{0}}
           GROUP BY l.coach, window(l.ts, '5 seconds')"""
SESSION = "SELECT count(*) AS n FROM l WHERE load > {} GROUP BY session_window(ts, '5 seconds') HAVING count(*) > {}"
FILTER = "SELECT coach, load + {1} AS more FROM l WHERE load > {0}"


def query(sql: str, name: str, *literals: int, running: tuple[Query, ...] = ()) -> Query:
    made = compile_query(sql.format(*literals), STREAMS, QueryId(name))
    return replace(made, taps=find(made, running), begins=len(running) + 1)


def kinds(query: Query) -> list[str]:
    """The operators whose rows a query takes from others."""
    return [type(query.shape.plan.operators[index]).__name__ for index, _ in ends(query)]


@pytest.mark.parametrize(
    ("sql", "equal", "alike_below"),
    [
        (WINDOW, ["Aggregate"], ["Aggregate"]),
        (JOIN, ["Project"], ["Join"]),
        (NESTED, ["Aggregate"], []),  # (a window's length is no literal: these are two shapes)
        (BOTH, ["Aggregate"], ["Join"]),
        (SESSION, [], []),
        (FILTER, ["Project"], []),
    ],
)
def test_a_tap_is_as_high_as_rows_can_be_told_apart(sql: str, equal: list[str], alike_below: list[str]) -> None:
    """Rows have a class up to the lowest window. Of the literals the first is below the tap, the second above it."""
    first = query(sql, "first", 3, 10)
    assert kinds(query(sql, "equal", 3, 10, running=(first,))) == equal
    assert kinds(query(sql, "alike", 3, 20, running=(first,))) == alike_below
    assert kinds(query(sql, "different", 4, 10, running=(first,))) == []


def test_a_subscription_is_part_of_what_is_equal():
    sql = "SELECT count(*) AS n FROM l WHERE train = '{}' GROUP BY window(ts, '5 seconds')"
    first = query(sql, "first", 1)
    assert query(sql, "second", 1, running=(first,)).taps
    assert not query(sql, "third", 2, running=(first,)).taps


def test_who_taps_is_not_tapped_for_that_itself():
    """The join is the first one's, the window over it the second one's: the third takes each from who executes it."""
    first = query(BOTH, "first", 3, 10)
    second = query(BOTH, "second", 3, 20, running=(first,))
    third = query(BOTH, "third", 3, 20, running=(first, second))
    fourth = query(BOTH, "fourth", 3, 30, running=(first, second, third))
    queries = {q.id: q for q in (first, second, third, fourth)}
    join = next(i for i, o in enumerate(first.shape.plan.operators) if isinstance(o, Join))
    top = len(first.shape.plan.operators) - 1
    assert {executor(q, join, queries).id for q in queries.values()} == {"first"}
    assert dict(ends(third)) == {next(i for i, _ in ends(third)): "second"}
    assert dict(ends(fourth)) == {join: "first"}
    assert [executor(q, top, queries).id for q in queries.values()] == ["first", "second", "third", "fourth"]
    shared = dict(zip(("join", "window"), [users for _, users in together(third, queries)], strict=True))
    assert shared == {"join": ["first", "fourth", "second", "third"], "window": ["second", "third"]}


def test_what_is_tapped_goes_on_when_a_query_is_not_run():
    first = query(BOTH, "first", 3, 10)
    second = query(BOTH, "second", 3, 20, running=(first,))
    third = query(BOTH, "third", 3, 20, running=(first, second))
    whole = Deployment(queries={q.id: q for q in (first, second, third)})
    left = whole.without([first.id, second.id])
    assert {name: q.internal for name, q in left.queries.items()} == {"first": True, "second": True, "third": False}
    assert set(whole.without([second.id, third.id]).queries) == {"first"}


@pytest.mark.parametrize(
    ("sql", "why"), [(SESSION, "its state is not kept by beginning"), (NESTED, "it is above a window or an outer join")]
)
def test_what_is_the_same_and_not_shared_has_a_reason(sql: str, why: str):
    first = query(sql, "first", 3, 10)
    second = query(sql, "second", 3, 10, running=(first,))
    ((_, others, told),) = apart(second, {q.id: q for q in (first, second)})
    assert (others, told) == (["first"], why)


def test_a_scan_alone_is_not_worth_a_tap():
    first = query("SELECT * FROM l", "first")
    assert not can_be_tapped(first.shape.plan, 0)
