"""Faults that were found once, each with what must hold since."""

from __future__ import annotations

from math import gcd

import pytest

from godwit.errors import SqlError, UnsupportedError
from godwit.ids import QueryId
from godwit.model.joins import OuterJoin
from godwit.model.plan import KINDS, Join, Operator, Partial, Plan
from godwit.sql import compile_query
from tests.sql.streams import STREAMS


def _plan(sql: str) -> Plan:
    return compile_query(sql, STREAMS, QueryId("q")).shape.plan


_PAIR = "SELECT p.train, d.opened, p.ts FROM passengers p JOIN doors d ON p.train = d.train AND "


def test_half_a_between_is_a_bound() -> None:
    """The other half, which is no time column, is checked as it is."""
    half = "d.ts BETWEEN p.ts AND timestamp_seconds(p.boarded) AND d.ts <= p.ts + INTERVAL 5 SECONDS"
    split = "d.ts >= p.ts AND d.ts <= timestamp_seconds(p.boarded) AND d.ts <= p.ts + INTERVAL 5 SECONDS"
    joins = [next(o for o in _plan(_PAIR + on).operators if isinstance(o, Join)) for on in (half, split)]
    bands = [(join.lower_us, join.upper_us) for join in joins]
    assert bands[0] == bands[1]
    assert {abs(bound) for bound in bands[0]} == {0, 5_000_000}


def test_a_band_may_go_through_another_timestamp() -> None:
    sql = """SELECT t.train, p.boarded, t.at FROM temps t JOIN passengers p ON t.train = p.train
             AND p.ts >= t.at AND p.ts <= t.calibrated AND t.calibrated <= t.at + INTERVAL 20 SECONDS"""
    join = next(j for j in _plan(sql).operators if isinstance(j, Join))
    assert {abs(join.lower_us), abs(join.upper_us)} == {0, 20_000_000}


def test_a_row_of_a_hopping_window_is_stored_once() -> None:
    sql = "SELECT train, count(*) AS n FROM passengers GROUP BY train, window(ts, '1 minute', '9 seconds')"
    partial = next(o for o in _plan(sql).operators if isinstance(o, Partial))
    assert partial.window.slice_us == gcd(60, 9) * 1_000_000


def test_a_semi_join_is_accepted() -> None:
    sql = _PAIR.replace("JOIN", "LEFT SEMI JOIN").replace("d.opened, ", "") + "d.ts = p.ts"
    assert [o.how for o in _plan(sql).operators if isinstance(o, OuterJoin)] == ["semi"]


def test_the_bounds_of_an_inner_window_are_a_window() -> None:
    """Its remedy was once a window of ten seconds over them: another question."""
    sql = """SELECT max(n) AS most, s, e FROM (SELECT train, count(*) AS n, window.start AS s, window.end AS e
             FROM passengers GROUP BY train, window(ts, '10 seconds', '2 seconds')) GROUP BY s, e"""
    assert _plan(sql).operators


@pytest.mark.parametrize("call", ["count_char(note, 'c')", "decision_tree(opened)"])
def test_a_function_of_a_similar_name_is_not_proposed(call: str) -> None:
    with pytest.raises(SqlError) as caught:
        _plan(f"SELECT {call} AS x, ts FROM doors")
    assert "did you mean" not in caught.value.remedy


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT * FROM doors MATCH_RECOGNIZE (PARTITION BY train ORDER BY ts PATTERN (A B))", "MATCH_RECOGNIZE"),
        ("SELECT train, ts FROM doors WATERMARK ts DELAY OF INTERVAL 5 SECONDS", "does not set the watermark"),
    ],
)
def test_what_is_valid_elsewhere_is_no_mistake(sql: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        _plan(sql)


def test_asof_is_read() -> None:
    sql = """SELECT /*+ keep('forever') */ d.train, p.boarded, d.ts FROM doors d ASOF JOIN passengers p
             MATCH_CONDITION (d.ts >= p.ts) ON d.train = p.train"""
    assert _plan(sql).operators


def test_every_operator_that_keeps_something_says_what_and_until_when() -> None:
    ours = {name: kind for name, kind in KINDS.items() if kind.stateful and kind.__module__.startswith("godwit.model")}
    silent = [name for name, kind in ours.items() if kind.keeps is Operator.keeps]
    assert len(ours) > 6
    assert silent == []
