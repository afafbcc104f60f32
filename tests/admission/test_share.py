"""Sharing across shapes: which operators are the same, and what a reader is left with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model.joins import OuterJoin
from godwit.model.plan import WINDOW_END, Aggregate, Column, Join, Query, Stream
from godwit.sql import compile_query, sharing
from godwit.sql.sharing import Split, forms, split, widened

COLUMNS = tuple(Column(*c) for c in (("train", "string"), ("coach", "int"), ("load", "double"), ("ts", "timestamp")))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts", "train") for name in ("l", "r", "z")}
BAND = "{a}.coach = {b}.coach AND {a}.ts BETWEEN {b}.ts - INTERVAL {s} SECOND AND {b}.ts + INTERVAL 2 SECONDS"


def compiled(sql: str, name: str = "q") -> Query:
    return compile_query(sql, STREAMS, QueryId(name))


def query(
    select: str, over: str = "3", a: str = "a", b: str = "b", seconds: str = "1", like: str = "a__%", more: str = ""
) -> Query:
    on = BAND.format(a=a, b=b, s=seconds)
    where = f"{a}.load > {over} AND {b}.train LIKE '{like}'"
    return compiled(f"SELECT {select} FROM l {a} JOIN r {b} ON {on} WHERE {where} {more}", "new")


def windows(
    select: str, alias: str = "a", where: str = "load > 3", having: str = "", slide: str = "5 seconds"
) -> Query:
    by = f"GROUP BY {alias}.coach, window({alias}.ts, '10 seconds', '{slide}')"
    return compiled(f"SELECT {select} FROM l {alias} WHERE {alias}.{where} {by} {having}")


FIRST = query("a.train, a.coach, b.load, a.ts")
SUMS = windows("a.coach, sum(a.load) AS s, window.end AS e", having="HAVING sum(a.load) > 7")


def shared(new: Query, *running: Query) -> Split:
    def columns(of: Query, index: int) -> tuple[Column, ...]:
        return tuple(Column(name, "string") for name in forms(of)[index].columns)

    return split(new, running, columns, 7)


def test_names_and_columns_do_not_matter():
    other = query("x.coach, y.coach AS other, y.ts", a="x", b="y")
    assert forms(FIRST)[_top(FIRST, Join)].text == forms(other)[_top(other, Join)].text
    ((cut, stream),) = shared(other, FIRST).parts
    assert (cut.shape, cut.cut, set(cut.taps.values())) == (FIRST.shape, _top(FIRST, Join), {FIRST.id})
    assert (cut.target, cut.internal, stream.device) == (stream.id, True, "__reader")


def outer(how: str, select: str, a: str = "a", b: str = "b", more: str = "") -> Query:
    on = BAND.format(a=a, b=b, s="1")
    return compiled(f"SELECT {select} FROM l {a} {how} JOIN r {b} ON {on} AND {b}.load > {a}.load {more}")


@pytest.mark.parametrize("how", ["LEFT", "RIGHT", "LEFT SEMI", "LEFT ANTI"])
def test_outer_semi_and_anti_joins_are_the_same_if_all_they_compute_is(how: str):
    side = "b" if how == "RIGHT" else "a"
    first = outer(how, f"{side}.train, {side}.coach, {side}.load, {side}.ts")
    mine = "y" if how == "RIGHT" else "x"
    counted = f"GROUP BY {mine}.coach, window({mine}.ts, '10 seconds')"
    other = outer(how, f"{mine}.coach, count(*) AS n, window.end AS e", "x", "y", counted)
    found = shared(other, first)
    ((cut, stream),) = found.parts
    assert (set(cut.taps.values()), stream.time) == ({first.id}, f"{side}__ts")
    assert not any(isinstance(operator, OuterJoin) for operator in found.reader.shape.plan.operators)
    assert shared(outer("LEFT" if how != "LEFT" else "RIGHT", f"{side}.train, {side}.ts"), first).parts == ()


def test_a_full_join_is_not_cut_for_its_rows_have_no_time():
    first = outer("FULL", "a.train, b.load")
    assert shared(outer("FULL", "x.train, y.load + 1 AS more", "x", "y"), first).parts == ()


def test_forms_of_queries_that_have_ended_are_forgotten():
    for number in range(300):
        shared(replace(FIRST, parameters=(str(number), *FIRST.parameters[1:])), SUMS)
    assert len(sharing._FORMS) < 150


@pytest.mark.parametrize("different", [{"over": "4"}, {"seconds": "2"}, {"like": "b__%"}])
def test_literals_and_bands_do(different):
    other = query("a.train, a.ts", **different)
    assert shared(other, FIRST) == Split(other)


@pytest.mark.parametrize(
    ("other", "is_shared"),
    [
        (windows("x.coach AS c, sum(x.load) / 2 AS half, window.start AS since", alias="x"), True),
        (windows("a.coach, sum(a.load) AS s", having="HAVING sum(a.load) < 3 OR a.coach = 1"), True),
        (windows("a.coach, sum(a.load) AS s", where="load > 4"), False),
        (windows("a.coach, sum(a.load) AS s", slide="2 seconds"), False),
        (windows("a.coach, max(a.load) AS s"), False),
    ],
)
def test_windows_with_another_projection_or_condition_above(other, is_shared):
    made = shared(other, SUMS)
    assert bool(made.parts) == is_shared
    assert is_shared != any(isinstance(o, Aggregate) for o in made.reader.shape.plan.operators)


def test_the_watermark_of_a_stream_is_that_of_its_cut():
    """A pair may lie a second behind: the window above it, which waited for that, need not any more."""
    counted = query("a.coach, sum(b.load) AS s", more="GROUP BY a.coach, window(a.ts, '5 seconds')")
    made = shared(counted, FIRST)
    lags = [o.lag_us for p in (counted, made.reader) for o in p.shape.plan.operators if isinstance(o, Aggregate)]
    assert lags == [1_000_000, 0]
    assert [stream.time for _, stream in shared(windows("a.coach, sum(a.load) AS t"), SUMS).parts] == [WINDOW_END]


def test_what_the_running_query_does_not_keep_cannot_be_read():
    few = query("a.coach, b.load, a.ts")
    assert shared(FIRST, few) == Split(FIRST)
    assert shared(few, FIRST).parts


def test_joins_that_keep_all_columns_can_be_read_by_everybody():
    few = widened(query("a.coach, b.load, a.ts"), STREAMS)
    assert shared(widened(FIRST, STREAMS), few).parts
    assert len(few.shape.plan.operators) < len(query("a.coach, b.load, a.ts").shape.plan.operators)


def test_readers_that_differ_in_literals_have_one_shape():
    readers = [
        shared(windows("a.coach, sum(a.load) AS s", having=f"HAVING sum(a.load) < {n}"), SUMS).reader for n in (4, 9)
    ]
    assert readers[0].shape == readers[1].shape
    assert readers[0].parameters != readers[1].parameters


def test_who_reads_a_cut_is_not_read_itself():
    """What it reads is told apart by its own beginning."""
    reader = shared(windows("a.coach, sum(a.load) AS s"), SUMS).reader
    assert not shared(windows("a.coach, sum(a.load) * 2 AS s"), reader).parts


def test_a_stream_read_inside_and_outside_of_a_join_is_not_shared_there():
    near = "z.coach = b.coach AND z.ts BETWEEN b.ts AND b.ts + INTERVAL 1 SECOND"
    both = f"FROM l a JOIN r b ON {BAND.format(a='a', b='b', s=1)}"
    two = compiled(f"SELECT a.train, a.ts, b.coach, b.ts AS other {both}", "two")
    parts = {}
    for name in "zl":
        third = f"SELECT a.train, z.train AS other, a.ts {both} JOIN {name} z ON {near}"
        parts[name] = len(shared(compiled(third), two).parts)
    assert parts == {"z": 1, "l": 0}


def test_what_a_query_has_twice_is_executed_once():
    text = """WITH w AS (SELECT coach, sum(load) AS s, window.end AS e FROM l GROUP BY coach, window(ts, '5 seconds'))
              SELECT p.coach, p.s, q.s AS t, p.e FROM w p JOIN w q
              ON p.coach = q.coach AND p.e BETWEEN q.e AND q.e + INTERVAL 5 SECONDS"""
    twice = compiled(text)
    made = shared(twice)
    ((cut, stream),) = made.parts
    assert (cut.shape, cut.taps) == (twice.shape, {})
    assert cut.executed < set(range(len(twice.shape.plan.operators)))
    assert [scan.stream for _, scan in made.reader.shape.plan.scans] == [stream.id, stream.id]
    assert len(set(made.reader.subscriptions.values())) == 1


def test_a_query_that_has_nothing_in_common_stays_as_it_is():
    plain = compiled("SELECT train, ts FROM l WHERE load > 3")
    assert shared(plain, FIRST, SUMS) == Split(plain)


def _top(query: Query, kind: type) -> int:
    return max(i for i, operator in enumerate(query.shape.plan.operators) if isinstance(operator, kind))
