"""Results that replace each other: what each is to its key, and sinks that take none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import ClassVar, Literal

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks.base import ResultBatch, ResultSink
from godwit.errors import ConfigError
from godwit.model.topology import Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Rowwise(ResultSink):
    """Keeps rows, and could not take one back."""

    exactly_once: ClassVar[bool] = False
    changes: ClassVar[Literal["newest", "every", "none"]] = "none"
    name = "rowwise"

    def write(self, batch: ResultBatch) -> None:
        raise AssertionError


def test_every_change_says_what_it_is(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("readings", "k string, v int, ts timestamp", site="west", ahead=None)
    sql = "SELECT /*+ keep('forever') */ k, sum(v) AS total FROM readings GROUP BY k HAVING total > 0"
    query = fleet.submit(sql, "totals")
    for second, (key, value) in enumerate([("a", 1), ("b", 2), ("a", 2), ("a", -9), ("b", 1), ("a", 20)]):
        fleet.push("readings", [{"k": key, "v": value, "ts": START + dt.timedelta(seconds=second)}])
        fleet.process_available()
    rows = sorted(query.changes().collect(), key=lambda row: (row["k"], row["__version"]))
    told = [(row["k"], row["__change"], None if row["__deleted"] else row["total"]) for row in rows]
    assert told == [
        ("a", "insert", 1), ("a", "update", 3), ("a", "delete", None), ("a", "insert", 14),
        ("b", "insert", 2), ("b", "update", 3),
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="the results of 'totals' replace each other, and Rowwise takes none"):
        query.write_to(Rowwise())
    assert "__change" not in fleet.submit("SELECT k, ts FROM readings", "rows").changes().columns
