"""The re-optimiser in a running fleet: rates drift, an operator moves with its state, and the oracle agrees."""

from __future__ import annotations

import datetime as dt
import random

from godwit.control.reoptimiser import Watching
from godwit.model.topology import Link, Site, Topology
from godwit.placement.reoptimise import Policy

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
#: a small box takes 20 rows a second, the cloud 1,000
WATCHING = Watching(Policy(patience=2, cooldown_s=10.0), rows_per_unit=10.0)
COUNTS = """SELECT train, sum(boarded) AS people, window.end AS until
            FROM passengers WHERE boarded > 2 GROUP BY train, window(ts, '10 seconds')"""


def test_an_operator_moves_when_rates_drift_and_does_not_flap(open_fleet):
    """Two trains at a small box: what is there leaves when they send more than it can take, and stays away."""
    fleet = open_fleet(reoptimise=WATCHING)
    sites = [Site("box", "edge", cpu=2.0), Site("cloud", "cloud", cpu=100.0, kind="cloud")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, [Link("box", "cloud", ms=5)]))  # type: ignore[arg-type]
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    trains = {name: fleet.device(name, site="box", streams=["passengers"]) for name in ("t0", "t1")}
    query = fleet.submit(COUNTS, "counts")
    before = dict(fleet.deployment.placement)
    rng, told = random.Random(3), []
    for second, rows in enumerate((2, 2, 2, 40, 40, 40, 40, 2, 2, 40, 2, 40)):
        for name, train in trains.items():
            times = (START + dt.timedelta(seconds=second + k / rows) for k in range(rows))
            train.push([{"train": name, "boarded": rng.randrange(9), "ts": ts} for ts in times])
        fleet.process_available()
        told.append([advice.decision.verdict for advice in fleet.reoptimiser.look(at=float(second))])
    assert told[:3] == [[], [], []]
    assert sum(verdicts.count("move") for verdicts in told) == 1
    after = fleet.deployment.placement
    moved = {name for name in after if after[name] != before[name]}
    assert moved
    assert {after[name] for name in moved} == {"cloud"}
    fleet.close_sources()
    fleet.process_available()
    verdict = query.verdict()
    assert verdict.equal, str(verdict)
    assert verdict.got > 0
    stories = [s for s in fleet.history.read() if s["cause"].startswith("re-optimiser, query 'counts'")]
    assert [s["outcome"] for s in stories].count("committed") == 1
    assert "latency" in stories[0]["cause"]
    assert " ms" in stories[0]["cause"]


def test_it_is_off_unless_asked_for(open_fleet):
    fleet = open_fleet()
    assert fleet.reoptimiser.look(at=1.0) == []
