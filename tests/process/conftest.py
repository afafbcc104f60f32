"""One started fleet of processes for all tests here: a coordinator and two regions, real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.model.topology import Link, Site, Topology
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from tests.region.world import SCHEMA

#: both regions interpret plans, as all tests do
REGIONS = tuple(RegionSpec(name, keep=True, quick=True) for name in ("edge", "cloud"))


def two_regions() -> Topology:
    """west (edge) - cloud (cloud) - east (cloud)"""
    sites = [Site("west", "edge"), Site("east", "cloud"), Site("cloud", "cloud", cpu=1000.0, kind="cloud")]
    return Topology.of(sites, [Link("west", "cloud", ms=5), Link("east", "cloud", ms=5)])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    folder: Path = tmp_path_factory.mktemp("processes") / "fleet"
    made = Launcher(FleetFile(folder, REGIONS, lease=3.0), proxied=True)
    try:
        made.up()
        yield made
    finally:
        made.down()


@pytest.fixture(scope="module")
def fleet(launcher: Launcher) -> Iterator[ConnectedFleet]:
    with ConnectedFleet(launcher.spec.store, launcher.token()) as made:
        made.add_topology(two_regions())
        made.stream("passengers", SCHEMA, device="train", disorder="3 seconds")
        for number in range(3):
            made.device(f"t{number}", site=("west", "east")[number % 2], streams=["passengers"])
        yield made
