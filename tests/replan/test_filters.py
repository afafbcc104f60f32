"""Filters above or below the joins: the same rows either way."""

from __future__ import annotations

import duckdb
import pytest

from godwit.errors import ConfigError
from godwit.model.plan import Filter, Join
from godwit.replan.box import JoinBox, reordered
from godwit.replan.filters import filters_above, filters_below, pushed_down, pushed_up
from godwit.replan.matching import match
from godwit.replan.steps import BoxChange, possible
from tests.replan.queries import STREAMS, compiled
from tests.replan.test_box import QUERIES, connection, rows_of

__all__ = ["connection"]
SQL = QUERIES["every pair"] + " WHERE a.v > 1 AND (a.k2 = 1 OR a.k = 0) AND b.k2 > 0"


def test_up_and_down_make_the_same_rows(connection: duckdb.DuckDBPyConnection) -> None:
    query = compiled(SQL)
    expected = rows_of(connection, query)
    up = pushed_up(query, "a", STREAMS)
    down = pushed_down(up, "a", STREAMS)
    assert expected
    for plan in (up, down, pushed_up(up, "b", STREAMS)):
        assert rows_of(connection, plan) == expected
        for tree in JoinBox.of(plan.shape.plan, STREAMS).orders():
            assert rows_of(connection, reordered(plan, tree, STREAMS)) == expected
    assert filters_below(up, "a", STREAMS) == ()
    assert set(filters_above(up, STREAMS)) == set(filters_below(query, "a", STREAMS))
    assert set(filters_below(down, "a", STREAMS)) == set(filters_below(query, "a", STREAMS))
    assert filters_above(down, STREAMS) == ()


def test_only_the_named_stream_is_pushed_down() -> None:
    both = pushed_up(pushed_up(compiled(SQL), "a", STREAMS), "b", STREAMS)
    down = pushed_down(both, "b", STREAMS)
    assert filters_below(down, "a", STREAMS) == ()
    assert len(filters_below(down, "b", STREAMS)) == 1
    assert len(filters_above(down, STREAMS)) == 2


def test_it_is_above_all_joins() -> None:
    operators = pushed_up(compiled(SQL), "a", STREAMS).shape.plan.operators
    filters = [i for i, op in enumerate(operators) if isinstance(op, Filter) and "a__v" in op.predicate]
    assert filters == [max(i for i, op in enumerate(operators) if isinstance(op, Join)) + 1]


def test_states_cannot_be_moved_then() -> None:
    query = compiled(SQL)
    found = match(query, pushed_up(query, "a", STREAMS), STREAMS)
    assert found.empty
    assert possible(BoxChange(found, run_out=True)) == ("pause-drain-resume", "parallel-track")


@pytest.mark.parametrize(
    ("change", "alias", "problem"),
    [
        (pushed_up, "x", "'x' is no stream of the query"),
        (pushed_up, "c", "'c' has no filter below the joins"),
        (pushed_down, "a", "no filter above the joins is about 'a' alone"),
    ],
)
def test_bad(change: object, alias: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        change(compiled(SQL), alias, STREAMS)  # type: ignore[operator]
