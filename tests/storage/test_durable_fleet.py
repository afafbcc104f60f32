"""A fleet whose every acknowledgement is synced answers the same, and syncs for several writers at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from godwit.api.fleet import Fleet
from godwit.model.topology import Link, Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_fleet_that_syncs(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet(durability="power")
    fleet.topology.add(Topology.of([Site("w", "west"), Site("e", "east")], [Link("w", "e", 1.0)]))
    fleet.stream("readings", "name string, size int, ts timestamp", device="name")
    for device, site in (("a", "w"), ("b", "e")):
        fleet.device(device, site=site, streams=["readings"])
    sql = "SELECT name, sum(size) AS total FROM readings GROUP BY window(ts, '10 seconds'), name"
    query = fleet.submit(sql, "windows", sink="e")
    fleet.start()
    for n in range(10):
        for device in ("a", "b"):
            fleet.push("readings", [{"name": device, "size": n, "ts": START + dt.timedelta(seconds=3 * n)}])
    fleet.close_sources()
    fleet.process_available()
    verdict = query.verdict()
    assert verdict.equal, verdict
    assert verdict.got > 4
    assert fleet.store.group is not None
    assert fleet.store.group.rounds > 20
