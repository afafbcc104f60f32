"""A savepoint is opened elsewhere and goes on: windows that were open, totals, positions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from godwit.api.fleet import Fleet
from godwit.cli.main import app
from godwit.errors import ConfigError, StateError
from godwit.maintenance.savepoint import export
from tests.region.world import SITES, World

QUERIES = {
    "open": "SELECT train, count(*) AS n, window.end AS until FROM passengers GROUP BY train, window(ts, '1 minute')",
    "totals": "SELECT /*+ keep('forever') */ train, count(*) AS n FROM passengers GROUP BY train",
}


def test_a_copy_goes_on_where_the_fleet_was(
    open_fleet: Callable[..., Fleet], spark: SparkSession, tmp_path: Path
) -> None:
    world = World(open_fleet, QUERIES, trains=2)
    for number, handle in world.handles.items():
        handle.push(world._rows(number, 0, 5))
    world.fleet.process_available()
    folder, target = world.fleet.root, tmp_path / "elsewhere"
    with pytest.raises(StateError, match="a fleet runs in"):
        export(folder, target)
    world.fleet.stop()
    assert CliRunner().invoke(app, ["export", str(folder), str(target)]).exit_code == 0
    with pytest.raises(ConfigError, match="is not empty"):
        export(folder, target)
    copy = Fleet(target, spark)
    for number in range(2):
        device = copy.device(f"t{number}", site=SITES[number % 2], streams=["passengers"])
        device.push(world._rows(number, 6, 4))
    copy.close_sources()
    copy.process_available()
    told = [copy.query(name).verdict() for name in QUERIES]
    counts = {row.train: row.n for row in copy.query("totals").results().collect()}
    copy.stop()
    assert [str(v) for v in told if not v.equal] == []
    assert counts == {"t0": 9, "t1": 9}


def test_there_must_be_a_fleet(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no fleet in"):
        export(tmp_path / "nothing", tmp_path / "target")
