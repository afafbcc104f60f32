"""kill -9 of source, destination and coordinator in each phase of a migration of keys: exactly once, and in order.

One story over one started fleet. Who is killed dies when the phase is in the control log, not after some time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.control.commands import MigrateKeys
from godwit.ids import QueryId
from godwit.maintenance.housekeeping import Retention
from godwit.process.connect import ConnectedFleet
from godwit.process.launcher import Launcher
from godwit.protocol.handover import Migration
from godwit.storage import names
from tests.process.conftest import REGIONS
from tests.process.feed import Feed
from tests.region.test_key_migration import TOTALS, told
from tests.region.world import QUERIES
from tests.waiting import until

pytestmark = [pytest.mark.full, pytest.mark.lane("other"), pytest.mark.timeout(600)]
KEYS = ("t0", "t1")
SITES = {"edge": "west", "cloud": "cloud"}
#: query -> (its strategy, what it is to be killed in)
PHASES = {
    "totals": ("falcon", ("asked", "copy", "switch")),
    "join": ("falcon", ("copy",)),
    "tumbling": ("delta", ("switch",)),
}
KILLS = [(query, phase) for query, (_, phases) in PHASES.items() for phase in phases]


@pytest.fixture(scope="module")
def feed(fleet: ConnectedFleet) -> Feed:
    for query in PHASES:
        fleet.submit({**QUERIES, "totals": TOTALS}[query], query)
    feed = Feed(fleet)
    feed.send(4)
    fleet.process_available()
    return feed


def begun(fleet: ConnectedFleet, after: int, query: str) -> Iterator[str]:
    """The phases of a query's migrations that are in the control log."""
    for _, record in fleet.store.log(names.CONTROL).after(after):
        moves = map(Migration.from_json, record["moves"])
        yield from ("copy" if move.copy else "switch" for move in moves if move.number and move.query == query)


def owner(fleet: ConnectedFleet, query: str, key: str) -> str:
    """The region that has a key now; without a route of its own, the one that has the rest."""
    now = fleet.deployment
    known = now.queries[QueryId(query)]
    operator = next(i for i, node in enumerate(known.shape.plan.operators) if node.stateful)
    table = now.routes(known, operator)
    assert table is not None
    return str(table.route_of((key,)).process)


def kill(launcher: Launcher, name: str) -> None:
    launcher.signal(name, signal.SIGKILL)
    launcher.gone(name)
    if name == "coordinator":
        launcher.start_coordinator()
    else:
        launcher.start_region(next(region for region in REGIONS if region.name == name))
        launcher.joined()


@pytest.mark.parametrize("victim", ["source", "destination", "coordinator"])
@pytest.mark.parametrize(("query", "phase"), KILLS)
def test_a_process_is_killed_in_every_phase(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, query: str, phase: str, victim: str
) -> None:
    keys = ("0", "1") if query == "join" else KEYS
    source = owner(fleet, query, keys[0])
    destination = next(region for region in SITES if region != source)
    feed.send(1)
    before = fleet.store.log(names.CONTROL).last
    number = fleet.post(MigrateKeys(query, keys, SITES[destination], PHASES[query][0]))
    if phase != "asked":
        until(lambda: phase in begun(fleet, before, query), 120)
    kill(launcher, {"source": source, "destination": destination}.get(victim, victim))
    feed.send(1)  # sent again until they are taken
    fleet.await_command(number, 120)
    fleet.process_available(300)
    assert (
        phase == "asked" or "switch" not in begun(fleet, before, query) or owner(fleet, query, keys[0]) == destination
    )


def test_the_oracle_agrees_and_totals_came_in_order(
    launcher: Launcher, fleet: ConnectedFleet, feed: Feed, spark: SparkSession
) -> None:
    feed.send(3)
    fleet.close_sources()
    fleet.process_available(300)
    launcher.down()
    opened = Fleet(launcher.spec.store, spark, retention=Retention(keep=True))
    try:
        for name in PHASES:
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
