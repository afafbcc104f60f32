"""Literals that have a name can be changed without the rest of the text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.errors import GodwitError, SqlError
from godwit.sql.parameters import assigned, assignments
from tests.region.world import Push, World

SQL = "SELECT train, ts FROM passengers WHERE boarded > 5 /* threshold */ AND line = 'S41'  /*line*/ AND coach < 5"


def test_values_are_set_by_name() -> None:
    assert assignments("SET threshold = 7, line = 'it, = 3'") == {"threshold": "7", "line": "'it, = 3'"}
    assert assignments("alter query q set Threshold=-2.5;") == {"threshold": "-2.5"}
    assert assignments("SELECT 1") is None
    made = assigned(SQL, {"threshold": "-2.5", "line": "'S42'"})
    assert made == SQL.replace("5 /*", "-2.5 /*", 1).replace("'S41'", "'S42'")
    assert assigned(made, {"threshold": "5", "line": "'S41'"}) == SQL


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SET threshold = boarded", "sets no number or string"),
        ("SET threshold", "sets no number or string"),
        ("SET limit = 3", "no literal of the query is called 'limit'"),
    ],
)
def test_what_cannot_be_set(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says) as caught:
        assigned(SQL, assignments(text) or {})
    assert caught.value.remedy


def test_a_running_query_gets_another_threshold(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"q": "SELECT train, boarded, ts FROM passengers WHERE boarded > 100 /* threshold */"})
    world.play([Push(0, 0, 5)])
    world.fleet.process_available()
    epoch = world.fleet.deployment.epoch
    world.fleet.alter(world.fleet.known("q"), "ALTER QUERY q SET threshold = 0")
    assert world.fleet.deployment.epoch == epoch + 1
    world.play([Push(0, 6, 5)])
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert world.fleet.query("q").results().where("boarded > 0").count() > 0
    with pytest.raises(GodwitError, match="its named literals: threshold"):
        world.fleet.alter(world.fleet.known("q"), "SET limit = 3")
