"""kill -9 of source, destination and coordinator while keys migrate between processes: exactly once, and in order."""

from __future__ import annotations

import signal
import time

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.maintenance.housekeeping import Retention
from godwit.process.connect import ConnectedFleet
from godwit.process.launcher import Launcher
from tests.process.conftest import REGIONS
from tests.process.feed import Feed
from tests.region.test_key_migration import TOTALS, told
from tests.region.world import QUERIES

pytestmark = [pytest.mark.full, pytest.mark.lane("other")]
#: so many seconds after it was asked for, a migration is being copied, switched over, or done
MOMENTS = (0.0, 0.1, 0.3)
VICTIMS = ("edge", "cloud", "coordinator")


def kill(launcher: Launcher, victim: str) -> None:
    launcher.signal(victim, signal.SIGKILL)
    launcher.gone(victim)
    if victim == "coordinator":
        launcher.start_coordinator()
    else:
        launcher.start_region(next(region for region in REGIONS if region.name == victim))


@pytest.fixture(scope="module")
def feed(fleet: ConnectedFleet) -> Feed:
    fleet.submit(TOTALS, "totals")
    fleet.submit(QUERIES["tumbling"], "tumbling")
    feed = Feed(fleet)
    feed.send(4)
    fleet.process_available()
    return feed


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_process_is_killed_in_every_phase(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, victim: str, moment: float
) -> None:
    to = ("west", "cloud")[MOMENTS.index(moment) % 2]
    for query in ("totals", "tumbling"):
        fleet.migrate(query, keys=["t0", "t1"], to=to)
    feed.send(1)
    time.sleep(moment)
    kill(launcher, victim)
    feed.send(1)  # sent again until they are taken


def test_the_destination_moves_again_while_its_state_is_on_its_way(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed
) -> None:
    fleet.migrate("totals", keys=["t0", "t1"], to="cloud")
    fleet.process_available()
    launcher.signal("edge", signal.SIGSTOP)
    try:
        fleet.migrate("totals", keys=["t0", "t1"], to="west")
        fleet.migrate("totals", keys=["t0"], to="cloud")
        time.sleep(0.5)
    finally:
        launcher.signal("edge", signal.SIGCONT)
    feed.send(3)
    fleet.process_available()


def test_the_oracle_agrees_and_totals_came_in_order(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, spark: SparkSession
) -> None:
    fleet.close_sources()
    fleet.process_available()
    launcher.down()
    opened = Fleet(launcher.spec.store, spark, retention=Retention(keep=True))
    try:
        for name in ("totals", "tumbling"):
            verdict = opened.query(name).verdict()
            assert verdict.equal, str(verdict)
            assert verdict.got
        last: dict[str, int] = {}
        for row in told(opened, "totals"):
            assert row["n"] > last.get(row["train"], 0)
            last[row["train"]] = row["n"]
        assert sum(last.values()) == feed.rows
    finally:
        opened.stop()
