"""A stream gets columns more while everything runs: old rows have NULL there, queries that run do not notice."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError, GodwitError, SqlError
from tests.region.world import three_regions

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
TEN = "window(ts, '10 seconds')"
SCHEMA = "d string, v int, ts timestamp"


def _opened(open_fleet: Callable[..., Fleet]) -> Fleet:
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    fleet.stream("readings", SCHEMA, device="d", ahead=None)
    for name, site in (("a", "west"), ("b", "east")):
        fleet.device(name, site=site, streams=["readings"])
    return fleet


def _rows(second: int, **more: Any) -> list[dict[str, Any]]:
    return [{"d": d, "v": second, "ts": START + dt.timedelta(seconds=second), **more} for d in ("a", "b")]


def test_a_column_more_without_a_restart(open_fleet: Callable[..., Fleet]) -> None:
    fleet = _opened(open_fleet)
    every = fleet.submit("SELECT * FROM readings", "every")
    counts = fleet.submit(
        "SELECT d, count(*) AS n, window.end AS u FROM readings GROUP BY d, window(ts, '10 seconds')", "n"
    )
    fleet.push("readings", _rows(1))
    stream = fleet.alter_stream("readings", add="color string, weight double")
    assert stream.added == ("color", "weight")
    fleet.push("readings", _rows(2, color="red"))  # rows of both kinds in one micro-batch
    fleet.process_available()
    painted = fleet.submit(
        f"SELECT color, sum(weight) AS w, count(*) AS n, window.end AS u FROM readings GROUP BY color, {TEN}",
        "painted",
    )
    fleet.push("readings", _rows(3, color="blue", weight=1.5))
    old = pa.Table.from_pylist(_rows(4))  # a device that does not know of it
    fleet.push("readings", old)
    fleet.process_available()
    fleet.stop()
    fleet = _opened(open_fleet)  # declared as it was: the same stream
    fleet.push("readings", _rows(5, color="blue"))
    fleet.close_sources()
    fleet.process_available()
    verdicts = [fleet.query(name).verdict() for name in ("every", "n", "painted")]
    assert [str(v) for v in verdicts if not v.equal] == []
    assert [v.got for v in verdicts] == [10, 2, 2]
    found = {row["color"]: (row["n"], row["w"]) for row in fleet.query("painted").results().collect()}
    assert found == {"blue": (4, 3.0), None: (2, None)}
    assert every.id != painted.id != counts.id
    fleet.stream("readings", f"{SCHEMA}, color string, weight double", device="d", ahead=None)  # nor is this another


def test_what_cannot_be_added(open_fleet: Callable[..., Fleet]) -> None:
    fleet = _opened(open_fleet)
    fleet.submit("INSERT INTO many SELECT v, ts FROM readings", "many")
    fleet.table("names", "id int, name string", key="id")
    for name, add, why in (
        ("readings", "V string", "has a column 'V'"),
        ("readings", "x strong", "is not a schema"),
        ("readings", "__x int", "__x"),
        ("many", "x int", "its columns are those of its query"),
        ("names", "x int", "is a reference table"),
        ("nothing", "x int", "there is no stream 'nothing'"),
    ):
        with pytest.raises((ConfigError, GodwitError), match=why):
            fleet.alter_stream(name, add=add)
    with pytest.raises(SqlError, match="no column 'color'"):
        fleet.submit("SELECT color, ts FROM readings", "q")
