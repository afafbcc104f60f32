"""Closed sources hold nobody back, let all windows close once all are closed, and begin again with what they send."""

from __future__ import annotations

import itertools
import json

import pytest

from godwit.ids import QueryId, StreamId
from godwit.protocol.memory import Snapshot
from godwit.protocol.span import span
from godwit.protocol.watermarks import FOREVER, NEVER, Mark, WatermarkTracker
from godwit.sql import compile_query
from tests.sql.streams import STREAMS, declare


def heard(*told: tuple[str, Mark]) -> WatermarkTracker:
    book = WatermarkTracker()
    for source, mark in told:
        book.hear(0, source, mark)
    return book


def test_nobody_waits_for_a_closed_source() -> None:
    assert heard(("a", Mark(1, 10)), ("b", Mark(1, 3, turn=1))).clock([(0, "a"), (0, "b")]) == 10


def test_once_all_are_closed_the_last_end_counts() -> None:
    assert heard(("a", Mark(1, 50, turn=1)), ("b", Mark(1, 70, turn=1))).clock([(0, "a"), (0, "b")]) == 70
    assert WatermarkTracker().clock([]) == FOREVER


def test_a_source_that_begins_again_is_waited_for_again() -> None:
    book = heard(("a", Mark(1, 50, turn=1)), ("b", Mark(1, 70, turn=1)), ("a", Mark(1, NEVER, turn=2)))
    assert book.clock([(0, "a"), (0, "b")]) == NEVER
    book.hear(0, "a", Mark(1, 60, turn=2))
    assert book.clock([(0, "a"), (0, "b")]) == 60


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_marks_of_a_session_may_come_in_any_order(order: tuple[int, ...]) -> None:
    marks = [Mark(1, 10), Mark(1, 99, turn=1), Mark(1, 20, turn=2), Mark(1, 30, turn=2)]
    book = heard(*(("a", marks[k]) for k in order))
    assert book.mark(0, "a") == Mark(1, 30, turn=2)


def test_the_next_session_of_a_closed_source_has_a_clock_of_its_own() -> None:
    """It was closed with an end beyond its rows: that end is no promise of what it sends elsewhere."""
    book = heard(("a", Mark(1, 99, over=True, turn=1, following=2)), ("a", Mark(2, 20)))
    assert book.mark(0, "a") == Mark(2, 20)


def test_marks_survive_a_restart() -> None:
    book = heard(("a", Mark(1, 99, turn=1)), ("b", Mark(2, 5, idle=True)))
    memory = Snapshot(marks=book.known, own_marks={(0, "a", 1): Mark(1, 99, turn=1)})
    assert Snapshot.from_json(json.loads(json.dumps(memory.to_json()))) == memory


def test_the_span_is_that_of_the_longest_chain() -> None:
    second = 1_000_000
    hour = compile_query(
        "SELECT train, count(*) AS n, window.end AS at FROM passengers GROUP BY train, window(ts, '1 hour')",
        STREAMS,
        QueryId("hour"),
    )
    assert span([]) == 0
    assert span([hour]) == 3600 * second
    derived = {**STREAMS, StreamId("hours"): declare("hours", "train string; n bigint; at timestamp", "at", None)}
    into = compile_query(f"INSERT INTO hours {hour.sql}", STREAMS, QueryId("into"))
    day = "SELECT train, sum(n) AS n, window.end AS until FROM hours GROUP BY train, window(at, '1 day')"
    assert span([compile_query(day, derived, QueryId("day")), into]) >= 25 * 3600 * second
