"""Scripts of faults: the same seed makes the same script; played against real processes, the oracle agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.process.chaos import ChaosPlayer
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile
from godwit.process.launcher import Launcher
from godwit.testing.chaos import ChaosScript, FaultWeights, KillProcess, Together, chaos
from tests.process.conftest import REGIONS, two_regions
from tests.process.feed import Feed
from tests.region.world import QUERIES, SCHEMA

WHO = {"regions": ["edge", "cloud"], "devices": {f"t{n}": ["west", "east"] for n in range(3)}}
NAMES = ("tumbling", "join", "filter")


def test_a_seed_makes_one_script_and_weights_are_kept() -> None:
    assert _script(3, 40) == _script(3, 40)
    assert _script(3, 40) != _script(4, 40)
    calm = chaos(1, 200, **WHO, queries=NAMES, weights=FaultWeights(kill_region=0, kill_coordinator=0))  # type: ignore[arg-type]
    assert calm.faults > 50
    assert not any(isinstance(step, KillProcess) for step in calm.steps)
    assert "seed 1" in str(calm)


def test_faults_that_come_together_are_of_different_processes() -> None:
    calm = FaultWeights(kill_broker=1.0, together=10.0)
    script = chaos(1, 100, **WHO, queries=NAMES, weights=calm)  # type: ignore[arg-type]
    groups = [step.faults for step in script.steps if isinstance(step, Together)]
    assert len(groups) > 30
    assert all(len({getattr(fault, "process", "") for fault in faults}) == len(faults) > 1 for faults in groups)
    assert script.faults > sum(map(len, groups)), "others come alone"


def _script(seed: int, length: int) -> ChaosScript:
    return chaos(seed, length, **WHO, queries=NAMES)  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_long_scripts_end_as_the_oracle_says(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    _play(_script(seed, 40), tmp_path / "fleet", spark)


def _play(script: ChaosScript, folder: Path, spark: SparkSession) -> None:
    launcher = Launcher(FleetFile(folder, REGIONS, lease=3.0), proxied=True)
    try:
        launcher.up()
        with ConnectedFleet(folder, launcher.token()) as fleet:
            fleet.add_topology(two_regions())
            fleet.stream("passengers", SCHEMA, device="train", disorder="3 seconds")
            for number in range(3):
                fleet.device(f"t{number}", site=("west", "east")[number % 2], streams=["passengers"])
            for name in NAMES:
                pinned = name == "filter" and script.seed % 2 == 0  # (else its results leave wherever its rows are)
                fleet.submit(QUERIES[name], name, sink="cloud" if pinned else None)
            feed = Feed(fleet, seed=script.seed)
            for one in ChaosPlayer(launcher, fleet, feed.send).play(script):
                print(f"{one.seconds:6.2f} s after {one.step}")
            fleet.close_sources()
            fleet.process_available()
    finally:
        launcher.down()
    opened = Fleet(folder, spark, retention=Retention(keep=True))
    try:
        verdicts = [opened.query(name).verdict() for name in NAMES]
        assert all(verdict.equal for verdict in verdicts), f"{script}\n" + "\n".join(map(str, verdicts))
        assert min(verdict.got for verdict in verdicts) > 0, "nothing was tested"
        assert sum(sum(record["rows"].values()) for record in _entries(opened)) == feed.rows
    finally:
        opened.stop()


def _entries(fleet: Fleet) -> list[dict[str, dict[str, int]]]:
    """Of all source logs: every row that was sent is in one of them, once."""
    logs = [fleet.store.log(f"regions/{region}/sources/passengers") for region in WHO["regions"]]
    return [record for log in logs for _, record in log.after(0)]
