"""A fleet of processes stays small: epochs that all have followed go, devices that left are forgotten."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from godwit.ids import DeviceId
from godwit.model.changes import DeviceRemoved
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.storage.epoch_log import Control
from tests.process.conftest import two_regions
from tests.servers import until

MOVES = 260


@pytest.mark.full
@pytest.mark.timeout(900)
def test_epochs_and_departed_devices_go(tmp_path: Path) -> None:
    launcher = Launcher(
        FleetFile(tmp_path / "fleet", tuple(RegionSpec(name, quick=True) for name in ("edge", "cloud")))
    )
    try:
        launcher.up()
        with ConnectedFleet(tmp_path / "fleet", launcher.token()) as fleet:
            fleet.add_topology(two_regions())
            fleet.stream("s", "d string, n int, ts timestamp", device="d")
            fleet.device("gone", site="west", streams=["s"])
            fleet.device("stays", site="west", streams=["s"])
            fleet.submit("SELECT d, n, ts FROM s WHERE n >= 0", "q")
            start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
            for device in ("gone", "stays"):
                fleet.push("s", [{"d": device, "n": 0, "ts": start}], device=device, sequence=1)
            fleet.change([DeviceRemoved(DeviceId("gone"))])
            assert DeviceId("gone") in fleet.deployment.stays
            for n in range(1, MOVES):
                fleet.move_device("stays", ("east", "west")[n % 2])
                row = {"d": "stays", "n": n, "ts": start + dt.timedelta(seconds=n)}
                fleet.push("s", [row], device="stays", sequence=n + 1)
            fleet.process_available()
            assert until(lambda: Control(fleet.store).first > 1, 60), "no epoch was dropped"
            assert until(lambda: DeviceId("gone") not in fleet.deployment.stays, 60), "a device that left stays known"
            assert DeviceId("stays") in fleet.deployment.devices
            assert fleet.results("q").num_rows == MOVES + 1
        with ConnectedFleet(tmp_path / "fleet", launcher.token()) as late:  # begins with a copy
            assert DeviceId("stays") in late.deployment.devices
            launcher.signal("edge", 9)
            launcher.gone("edge")
            launcher.start_region(launcher.spec.regions[0])
            launcher.joined()
            late.move_device("stays", "west")
            row = {"d": "stays", "n": MOVES, "ts": start + dt.timedelta(seconds=MOVES)}
            late.push("s", [row], device="stays", sequence=MOVES + 1)
            late.process_available()
            assert late.results("q").num_rows == MOVES + 2
    finally:
        launcher.down()
