"""Splitting queries at their joins: what is equal, what is not, and what a reader is left with."""

from __future__ import annotations

import pytest

from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column, Join, Query, Stream
from godwit.sql import compile_query
from godwit.sql.sharing import Split, begins, split

COLUMNS = tuple(Column(*c) for c in (("train", "string"), ("coach", "int"), ("load", "double"), ("ts", "timestamp")))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts", "train") for name in ("l", "r", "z")}
BAND = "{a}.coach = {b}.coach AND {a}.ts BETWEEN {b}.ts - INTERVAL {s} SECOND AND {b}.ts + INTERVAL 2 SECONDS"


def query(select: str, over: str = "3", a: str = "a", b: str = "b", seconds: str = "1", like: str = "a__%") -> Query:
    on = BAND.format(a=a, b=b, s=seconds)
    where = f"{a}.load > {over} AND {b}.train LIKE '{like}'"
    return compile_query(f"SELECT {select} FROM l {a} JOIN r {b} ON {on} WHERE {where}", STREAMS, QueryId("q"))


FIRST = query("a.train, b.load, a.ts")


def parts(made: Split) -> list[str]:
    return [part.identity for part, _ in made.parts]


def test_names_and_columns_do_not_matter():
    other = query("x.coach, y.coach AS other, y.ts", a="x", b="y")
    assert parts(split(FIRST, STREAMS, {}, 1)) == parts(split(other, STREAMS, {}, 9))


@pytest.mark.parametrize("different", [{"over": "4"}, {"seconds": "2"}, {"like": "b__%"}])
def test_literals_and_bands_do(different):
    assert parts(split(FIRST, STREAMS, {}, 1)) != parts(split(query("a.train, a.ts", **different), STREAMS, {}, 1))


def test_text_in_quotes_is_left_alone():
    ((part, _),) = split(FIRST, STREAMS, {}, 1).parts
    assert "LIKE 'a__%'" in repr(part.shape.plan)


def test_a_part_that_runs_is_taken_as_it_is():
    ((part, stream),) = split(FIRST, STREAMS, {}, 1).parts
    again = split(FIRST, STREAMS, {part.identity: part}, 9)
    assert again.parts == ((part, stream),)
    assert again.reader.parts == (part.id,)
    assert not any(isinstance(o, Join) for o in again.reader.shape.plan.operators)


def test_readers_of_all_epochs_have_one_shape():
    early, late = (begins(split(FIRST, STREAMS, {}, 1).reader, epoch) for epoch in (1, 9))
    assert early.shape == late.shape
    assert early.parameters != late.parameters
    assert early.signatures == late.signatures  # so that the later one taps the earlier


def test_a_stream_read_inside_and_outside_of_a_join_is_not_split_there():
    near = "z.coach = b.coach AND z.ts BETWEEN b.ts AND b.ts + INTERVAL 1 SECOND"
    both = f"FROM l a JOIN r b ON {BAND.format(a='a', b='b', s=1)}"
    streams = {}
    for name in "zl":
        third = f"SELECT a.train, z.train AS other, a.ts {both} JOIN {name} z ON {near}"
        streams[name] = len(split(compile_query(third, STREAMS, QueryId("q")), STREAMS, {}, 1).parts)
    assert streams == {"z": 2, "l": 1}


def test_a_query_without_a_join_stays_whole():
    plain = compile_query("SELECT train, ts FROM l WHERE load > 3", STREAMS, QueryId("q"))
    assert split(plain, STREAMS, {}, 1) == Split(plain)
