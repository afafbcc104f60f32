"""Functions that a program brings with it: queries call them, and the oracle does, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, SqlError
from tests.region.world import Move, Push, World

QUERIES = {
    "rows": """SELECT train, Count_Char(line, '4') AS fours, twice(boarded) AS doubled, ts FROM passengers
               WHERE twice(boarded) > 4""",
    "window": """SELECT line, sum(twice(alighted)) AS n, window.end AS until FROM passengers
                 WHERE count_char(line, '1') = 1 GROUP BY line, window(ts, '10 seconds')""",
}


def count_char(text: str, char: str) -> int:
    return text.count(char)


def twice(values: pa.Array) -> pa.Array:
    return pc.multiply(values, 2)


def declare(fleet: Fleet) -> None:
    fleet.function("count_char", count_char, "int")
    fleet.function("twice", twice, "int", arrow=True)


class Bringing(World):
    def _prepare(self, fleet: Fleet) -> None:
        declare(fleet)
        super()._prepare(fleet)


def test_queries_call_functions_of_the_program(open_fleet: Callable[..., Fleet]) -> None:
    world = Bringing(open_fleet, QUERIES, trains=2)
    world.play([Push(0, 0, 6), Push(1, 2, 6)])
    world.fleet.process_available()
    world.play([Move("window", "west"), Push(0, 12, 6), Push(1, 12, 6)])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert {row.fours for row in world.fleet.query("rows").results().collect()} == {1}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("upper", count_char, "int"), "is a function of Spark's"),
        (("rand", count_char, "int"), "is a function of Spark's"),
        (("count char", count_char, "int"), "count char"),
        (("count_char", count_char, "integral"), "not a type that Spark knows"),
    ],
)
def test_what_cannot_be_declared(open_fleet: Callable[..., Fleet], given: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        open_fleet().function(*given)


def test_a_function_nobody_declared_is_refused(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {}, trains=1)
    with pytest.raises(SqlError, match="there is no function 'count_char'"):
        world.fleet.submit(QUERIES["rows"], "rows")
