"""A savepoint is opened elsewhere and goes on: windows that were open, totals, positions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from godwit.api.fleet import Fleet
from godwit.cli.main import app
from godwit.errors import ConfigError, StateError
from godwit.maintenance.savepoint import export, restore
from godwit.storage.lock import FolderLock
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
    folder, target = Path(world.fleet.store.disk.root), tmp_path / "elsewhere"
    with pytest.raises(StateError, match="a fleet runs in"):
        export(folder, target)
    world.fleet.stop()
    with pytest.raises(ConfigError, match="inside lies in the fleet's own folder, and would be copied with it"):
        export(folder, folder / "inside")
    process = FolderLock(folder / "processes" / "coordinator")
    process.take()
    try:
        script = "import sys; from pathlib import Path; from godwit.maintenance.savepoint import export; "
        script += "export(Path(sys.argv[1]), Path(sys.argv[2]))"
        told = subprocess.run(
            [sys.executable, "-c", script, str(folder), str(target)], capture_output=True, text=True, check=False
        )
        assert "coordinator is in use by process" in told.stderr
    finally:
        process.release()
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


def test_a_file_becomes_a_fleet_elsewhere_that_runs_on(open_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """Exported while it is open, in the middle of a window; both go on, each on its own."""
    world = World(open_fleet, QUERIES, trains=2)
    for number, handle in world.handles.items():
        handle.push(world._rows(number, 0, 5))
    world.fleet.process_available()
    file = tmp_path / "saved" / "fleet.tar.gz"
    assert world.fleet.export(file) == file.stat().st_size
    for number, handle in world.handles.items():
        handle.push(world._rows(number, 6, 2))
    copy = Fleet.restore(file, tmp_path / "elsewhere")
    try:
        for number in range(2):
            device = copy.device(f"t{number}", site=SITES[number % 2], streams=["passengers"])
            device.push(world._rows(number, 6, 4))
        copy.close_sources()
        copy.process_available()
        assert [str(v) for v in (copy.query(name).verdict() for name in QUERIES) if not v.equal] == []
        assert {row.train: row.n for row in copy.query("totals").results().collect()} == {"t0": 9, "t1": 9}
    finally:
        copy.stop()
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert {row.train: row.n for row in world.fleet.query("totals").results().collect()} == {"t0": 7, "t1": 7}


def test_what_is_no_savepoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"nothing")
    with pytest.raises(ConfigError, match="is no savepoint"):
        restore(tmp_path / "x.tar.gz", tmp_path / "new")
    said = CliRunner().invoke(app, ["import", str(tmp_path / "none"), str(tmp_path / "new")])
    assert said.exit_code != 0
    assert not (tmp_path / "new").exists()
