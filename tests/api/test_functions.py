"""Functions that a program brings with it: queries call them, and the oracle does, too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, SqlError
from godwit.ids import SiteId
from godwit.model.topology import Site, Topology
from tests.region.world import Move, Push, World

QUERIES = {
    "rows": """SELECT train, Count_Char(line, '4') AS fours, twice(boarded) AS doubled, ts FROM passengers
               WHERE twice(boarded) > 4""",
    "window": """SELECT line, sum(twice(alighted)) AS n, window.end AS until FROM passengers
                 WHERE count_char(line, '1') = 1 GROUP BY line, window(ts, '10 seconds')""",
}


START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


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


def test_another_function_under_a_known_name_is_called(spark: SparkSession, tmp_path: Path) -> None:
    """Plans are kept by their text for all fleets of a session, and the text is the same."""
    for more in (1, 2):
        with Fleet(tmp_path / str(more), spark) as fleet:
            fleet.topology.add(Topology.of([Site(SiteId("west"))]))
            fleet.stream("a", "v int, ts timestamp", site="west", ahead=None)
            fleet.function("shifted", lambda v, more=more: v + more, "int")
            query = fleet.submit("SELECT shifted(v) AS s, ts FROM a", "q")
            fleet.push("a", [{"v": 1, "ts": START}])
            fleet.process_available()
            assert [row.s for row in query.results().collect()] == [1 + more]


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
    fleet = open_fleet()
    with pytest.raises(ConfigError, match=says):
        fleet.function(*given)
    assert not fleet.functions.names, "what was refused is not known: every oracle would try to register it"


def test_a_function_nobody_declared_is_refused(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {}, trains=1)
    with pytest.raises(SqlError, match="there is no function 'count_char'"):
        world.fleet.submit(QUERIES["rows"], "rows")
