"""Links with a latency: what a region writes is seen elsewhere later, and results stay the oracle's."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.delivery.sinks import CallbackSink
from godwit.ids import QueryId, RegionId, SiteId
from godwit.model.topology import Link, Site, Topology
from godwit.region.link_delays import LinkDelays
from godwit.region.link_emulator import Links
from tests.region.world import QUERIES, Push, World


def test_a_message_is_seen_half_a_round_trip_later_and_in_order() -> None:
    delays, seen = LinkDelays(Links(round_trip_ms=100)), threading.Event()
    began = time.time()
    delays.sent("west", "cloud", "shape", 7, seen.set, late=True)
    assert delays.sees("west", "cloud", "shape", 6), "published before this process began"
    assert not delays.sees("west", "cloud", "shape", 7)
    assert delays.busy
    assert seen.wait(5)
    assert time.time() - began >= 0.05
    assert delays.sees("west", "cloud", "shape", 7)
    assert not delays.sees("west", "cloud", "shape", 8), "not published yet"
    assert delays.sees("cloud", "west", "shape", 1), "another way"


@pytest.mark.parametrize(("one", "other", "ms"), [("west", "cloud", 40), ("west", "east", 80), ("west", "west", 0)])
def test_regions_meet_over_the_hub(one: str, other: str, ms: float) -> None:
    assert Links(round_trip_ms=80).seconds(one, other) == pytest.approx(ms / 1000)


@pytest.mark.parametrize("strategy", ["delta", "falcon", "full-restart"])
def test_keys_migrate_over_slow_links(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = World(
        lambda **options: open_fleet(**options, links=Links(round_trip_ms=80)), {"tumbling": QUERIES["tumbling"]}
    )
    world.fleet.start()
    for number, second in enumerate(range(0, 30, 3)):
        world.play([Push(train, second, 3) for train in range(4)])
        if number % 3 == 1:
            site = ("west", "east", "cloud")[number // 3]
            world.fleet.migrate("tumbling", keys=["t0", "t1"], to=site, strategy=strategy)
        time.sleep(0.1)
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) == 3


TOTALS = "SELECT /*+ keep('forever') */ train, count(*) AS n, sum(boarded) AS s FROM passengers GROUP BY train"


def test_a_total_is_answered_in_order_without_waiting_for_the_source_to_say_so(
    open_fleet: Callable[..., Fleet],
) -> None:
    """Two regions, rows come in at the edge, results are read where the source is: what the edge tells comes behind."""
    fleet = open_fleet(links=Links(round_trip_ms=80))
    sites = [Site(SiteId("cloud"), RegionId("cloud"), cpu=1e9, kind="cloud"), Site(SiteId("w"), RegionId("west"))]
    fleet.topology.add(Topology.of(sites, [Link(SiteId("w"), SiteId("cloud"), ms=40)]))
    fleet.stream("passengers", "train string, boarded int, ts timestamp", time="ts", device="train")
    fleet.device("t0", site="w", streams=["passengers"])
    fleet.submit(TOTALS, "totals", sink="cloud")
    operators = fleet.deployment.queries[QueryId("totals")].shape.plan.operators
    local = fleet.deployment.queries[QueryId("totals")].shape.plan.is_local
    fleet.move({f"totals/{i}": "cloud" for i in range(len(operators)) if not local(i)})
    told: list[int] = []
    fleet.query("totals").write_to(CallbackSink(lambda rows: told.extend(row["n"] for row in rows)))
    fleet.start()
    for number in range(60):
        at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=number)
        fleet.push("passengers", [{"train": "t0", "boarded": 1, "ts": at}])
        if number in (15, 35):
            fleet.migrate("totals", keys=["t0"], to="w" if number == 15 else "cloud", strategy="falcon")
        time.sleep(0.03)
    fleet.close_sources()
    fleet.process_available()
    assert fleet.query("totals").verdict().equal
    assert [outcome for _, outcome in fleet.plane.keys.ended] == ["done", "done"]
    assert told == sorted(set(told)), "each total once, none before one that is less"
    assert told[-1] == 60
