"""Admission in the running fleet: who does not fit is refused, and what queries share is executed once."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from godwit.api.fleet import Fleet
from godwit.errors import AdmissionError
from godwit.ids import QueryId
from godwit.ingest.rates import Meter
from godwit.model.instances import InstanceId
from godwit.model.plan import Join
from godwit.model.topology import Link, Site, Topology

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
BAND = "ON {a}.coach = {b}.coach AND {a}.ts BETWEEN {b}.ts - INTERVAL 1 SECOND AND {b}.ts + INTERVAL 2 SECONDS"
PAIRS = f"SELECT a.train, b.gate, a.ts FROM trains a JOIN gates b {BAND.format(a='a', b='b')} WHERE a.load > 20"
COUNTS = f"""SELECT x.coach, count(*) AS n, max(y.people) AS most, window.end AS until
             FROM trains x JOIN gates y {BAND.format(a="x", b="y")} WHERE x.load > 20
             GROUP BY x.coach, window(x.ts, '5 seconds')"""
OTHER = PAIRS.replace("> 20", "> 60")


def ground(cpu: float, nic: float = 100.0) -> Topology:
    """west - cloud - east, a region each"""
    sites = [
        Site(name, region, cpu=cpu * more, nic_in_mbps=nic, nic_out_mbps=nic, kind=kind)  # type: ignore[arg-type]
        for name, region, more, kind in (
            ("west", "edge-west", 1, "edge"), ("east", "edge-east", 1, "edge"), ("cloud", "cloud", 2, "cloud"))
    ]  # fmt: skip
    return Topology.of(sites, [Link("west", "cloud", ms=5), Link("east", "cloud", ms=5)])  # type: ignore[arg-type]


class Station:
    """Trains that pass from site to site, and gates that stay."""

    def __init__(self, fleet: Fleet, cpu: float) -> None:
        self.fleet, self.rng = fleet, random.Random(7)
        fleet.topology.add(ground(cpu))
        fleet.stream("trains", "train string, coach int, load double, ts timestamp", device="train")
        fleet.stream("gates", "gate string, coach int, people int, ts timestamp", device="gate")
        self.trains = {n: fleet.device(n, site=s, streams=["trains"]) for n, s in (("t0", "west"), ("t1", "east"))}
        self.gates = {n: fleet.device(n, site=s, streams=["gates"]) for n, s in (("g0", "west"), ("g1", "cloud"))}

    def send(self, second: float, rows: int = 12) -> None:
        """3.6 seconds of rows from everybody."""
        times = [START + dt.timedelta(seconds=second + step * 0.3) for step in range(rows)]
        for name, train in self.trains.items():
            train.push([{"train": name, **self._coach(), "load": self.rng.random() * 100, "ts": ts} for ts in times])
        for name, gate in self.gates.items():
            gate.push([{"gate": name, **self._coach(), "people": self.rng.randrange(9), "ts": ts} for ts in times])

    def send_doors(self, second: float) -> None:
        """3.5 seconds of a stream without a device column."""
        times = [START + dt.timedelta(seconds=second + step * 0.5) for step in range(7)]
        self.fleet.push("doors", [{"coach": k % 3, "open": k % 2 == 0, "ts": ts} for k, ts in enumerate(times)])

    def _coach(self) -> dict[str, int]:
        return {"coach": self.rng.randrange(3)}

    def end(self) -> None:
        self.fleet.close_sources()
        self.fleet.process_available()


def joining(fleet: Fleet) -> set[str]:
    """The shapes that execute a join."""
    return {
        r.shape.key for r in fleet.pool.runners.values() if any(isinstance(o, Join) for o in r.shape.plan.operators)
    }


def read(fleet: Fleet, stream: str) -> set[str]:
    """The shapes that have taken in rows of a stream."""
    status = fleet.metrics._ledger
    status.status()
    return {
        key[1] for key, tail in status._tails.items() if any(s.startswith(stream) for s in tail.totals.rows_by_source)
    }


@pytest.fixture
def station(open_fleet) -> Station:
    return Station(open_fleet(), cpu=40.0)


def test_two_queries_that_share_a_join_run_it_once(station):
    """The oracle agrees for both, also for the one that came later, after a device hopped and after one has stopped."""
    fleet = station.fleet
    pairs = fleet.submit(PAIRS, "pairs")
    station.send(0)
    fleet.process_available()
    counts = fleet.submit(COUNTS, "counts")
    station.send(4)
    fleet.process_available()
    assert fleet.queries == ["counts", "pairs"]
    (part,) = [q for q in fleet.deployment.queries.values() if q.internal]
    assert joining(fleet) == {part.shape.key}
    assert read(fleet, "trains") == read(fleet, "gates") == {part.shape.key}
    planned = fleet.admission.plan_of(QueryId("counts"))
    (join,) = [p.host for p in planned.operators if p.kind == "join" and p.cpu]
    assert fleet.deployment.placement[InstanceId(QueryId("pairs"), part.cut)] == join
    assert f"operator {part.cut} of pairs runs once for pairs and this one" in counts.explain()
    assert {q.name: q.shared_by for q in fleet.status().queries if not q.name.startswith("shared_")} == {
        "counts": ("pairs",), "pairs": ("counts",)}  # fmt: skip
    station.trains["t0"].attach("east")
    station.send(8)
    fleet.process_available()
    assert pairs.verdict().equal
    before = pairs.results().count()
    assert before > 0
    pairs.stop()
    station.send(12)
    station.end()
    verdict = counts.verdict()
    assert verdict.equal, str(verdict)
    assert verdict.got > 0
    assert pairs.results().count() == before
    assert {part.id, "pairs"} <= fleet.deployment.queries.keys()
    counts.stop()
    assert not fleet.deployment.queries


def test_a_window_over_a_join_is_shared_with_the_join(station):
    """The first one leaves while others read its window, and one of another shape its join."""
    fleet = station.fleet
    first = fleet.submit(COUNTS, "first")
    station.send(0)
    fleet.process_available()
    cpu = sum(p.cpu for p in fleet.admission.plan_of(QueryId("first")).operators)
    second = fleet.submit(COUNTS, "second")
    pairs = fleet.submit(PAIRS, "pairs")
    planned = fleet.admission.plan_of(QueryId("second"))
    assert 0 < sum(p.cpu for p in planned.operators if p.output.startswith("second/")) < cpu
    station.send(4)
    fleet.process_available()
    third = fleet.submit(COUNTS, "third")
    station.trains["t0"].attach("east")
    station.send(8)
    fleet.process_available()
    tapped = {q.id: set(q.taps.values()) for q in fleet.deployment.queries.values() if q.taps}
    (cut,) = fleet.execution(QueryId("pairs")).parts
    assert tapped == {"second": {"first"}, "third": {"first"}, cut: {"first"}}
    before = first.results().count()
    assert before > 0
    first.stop()
    station.send(12)
    station.end()
    verdicts = [query.verdict() for query in (second, third, pairs)]
    assert all(v.equal and v.got for v in verdicts), "\n".join(map(str, verdicts))
    assert first.results().count() == before
    for query in ("pairs", "second", "third"):
        fleet.query(query).stop()
    assert not fleet.deployment.queries


def test_a_join_with_other_literals_is_another_one(station):
    fleet = station.fleet
    for name, sql in (("pairs", PAIRS), ("other", OTHER)):
        fleet.submit(sql, name)
    station.send(0)
    station.end()
    assert not any(q.parts for q in fleet.deployment.queries.values())
    assert all(fleet.query(name).verdict().equal for name in ("pairs", "other"))


def test_who_does_not_fit_is_refused_and_nothing_else_is_disturbed(open_fleet):
    """Six units of CPU in all: a join with what it needs fits, another join does not."""
    station = Station(open_fleet(), cpu=1.5)
    fleet = station.fleet
    fleet.submit(PAIRS, "pairs")
    station.send(0)
    fleet.process_available()
    epoch, history = fleet.deployment.epoch, fleet.history.read()
    with pytest.raises(AdmissionError, match=r"query 'third' does not fit: not enough CPU: .* more CPU at '\w+'"):
        fleet.submit(OTHER, "third")
    assert (fleet.deployment.epoch, fleet.history.read()) == (epoch, history)
    assert fleet.queries == ["pairs"]
    fleet.stop()
    station.fleet = fleet = open_fleet()  # and the process may end in between
    for devices in (station.trains, station.gates):
        devices.update({name: fleet.device(name) for name in devices})
    with pytest.raises(AdmissionError, match="query 'third' does not fit"):
        fleet.submit(OTHER, "third")
    station.send(4)
    station.end()
    verdict = fleet.query("pairs").verdict()
    assert verdict.equal, str(verdict)
    fleet.query("pairs").stop()
    fleet.submit(OTHER, "third")  # what the first had is free again


@pytest.mark.full
def test_a_join_below_a_join_and_a_stream_joined_with_itself(station):
    """A join of three streams stands on the join of two that another query has, which runs once."""
    fleet = station.fleet
    fleet.stream("doors", "coach int, open boolean, ts timestamp", site="cloud")
    near = "c.coach = b.coach AND c.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND"
    three = PAIRS.replace(" WHERE", f" JOIN doors c ON {near} WHERE").replace("a.ts FROM", "c.open, a.ts FROM")
    twice = (
        PAIRS.replace("gates b", "trains b")
        .replace("b.gate", "b.train AS other")
        .replace("WHERE", "WHERE b.load < 50 AND")
    )
    for name, sql in (("pairs", PAIRS), ("three", three), ("twice", twice)):
        fleet.submit(sql, name)
    for second in (0, 4, 8):
        station.send(second)
        station.send_doors(second)
        fleet.process_available()
    station.end()
    assert len([q for q in fleet.deployment.queries.values() if q.internal]) == 1
    assert len(joining(fleet)) == 3
    verdicts = [fleet.query(name).verdict() for name in fleet.queries]
    assert all(v.equal and v.got for v in verdicts), "\n".join(map(str, verdicts))


def test_relays_of_the_plan_are_the_routes_of_the_deployment(open_fleet):
    """west - cloud is short and narrow, west - relay - cloud long and wide: the rows do not fit through the first."""
    fleet = open_fleet()
    sites = [
        Site(name, "r", cpu=cpu, nic_in_mbps=10.0, nic_out_mbps=10.0)  # type: ignore[arg-type]
        for name, cpu in (("west", 0.0), ("relay", 0.0), ("cloud", 9.0))
    ]
    links = [Link("west", "cloud", mbps=0.05, ms=1), Link("west", "relay", ms=9), Link("relay", "cloud", ms=9)]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, links))
    fleet.stream("trains", "train string, load double, ts timestamp", device="train", mbps=0.5)
    fleet.device("t0", site="west", streams=["trains"])
    fleet.submit("SELECT train, load, ts FROM trains WHERE load > 20", "q")
    edge = InstanceId.parse("q/0@t0"), InstanceId.parse("q/1@t0")
    assert fleet.plane.planner.route[edge] == ("t0", "west", "relay", "cloud")
    fleet.stop()
    fleet = open_fleet()  # and they are that again after a restart
    assert fleet.plane.planner.route[edge] == ("t0", "west", "relay", "cloud")
    fleet.query("q").stop()
    assert fleet.store.get_document("ways") == {}


def test_a_join_is_executed_in_the_order_that_shares_most(station):
    """Written as doors, gates, trains; but the join of trains and gates runs already, for another query."""
    fleet = station.fleet
    fleet.stream("doors", "coach int, open boolean, ts timestamp", site="cloud")
    near = "c.coach = b.coach AND c.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 1 SECOND"
    three = (
        f"SELECT a.train, c.open, a.ts FROM doors c JOIN gates b ON {near} "
        f"JOIN trains a {BAND.format(a='a', b='b')} WHERE a.load > 20"
    )
    pairs = fleet.submit(PAIRS, "pairs")
    both = fleet.submit(three, "three")
    again = fleet.submit(three, "again")
    cuts = [fleet.execution(part) for name in ("three", "again") for part in fleet.execution(QueryId(name)).parts]
    assert [set(cut.taps.values()) for cut in cuts] == [{"pairs"}, {"pairs"}]
    for second in (0, 4):
        station.send(second)
        station.send_doors(second)
        fleet.process_available()
    station.end()
    assert len(joining(fleet)) == 2
    verdicts = [query.verdict() for query in (pairs, both, again)]
    assert all(v.equal and v.got for v in verdicts), "\n".join(map(str, verdicts))


def test_what_is_measured_replaces_what_was_declared(open_fleet):
    """Declared to send a little, the train sends more than the link of its site bears: the filter moves there."""
    fleet, now = open_fleet(), [0.0]
    fleet.gateway.meter = Meter(lambda: now[0])
    sites = [
        Site(name, f"r-{name}", cpu=cpu, nic_in_mbps=9.0, nic_out_mbps=9.0)  # type: ignore[arg-type]
        for name, cpu in (("west", 2.0), ("cloud", 900.0))
    ]
    fleet.topology.add(Topology.of(sites, [Link("west", "cloud", mbps=0.1)]))  # type: ignore[arg-type]
    fleet.stream("trains", "train string, load double, ts timestamp", device="train", mbps=0.01)
    train = fleet.device("t0", site="west", streams=["trains"])
    query = fleet.submit("SELECT train, load, ts FROM trains WHERE load > 20", "q", sink="cloud")
    assert fleet.deployment.placement[InstanceId.parse("q/1@t0")] == "cloud"
    rows = [{"train": "t0", "load": float(k % 40), "ts": START + dt.timedelta(seconds=k / 100)} for k in range(8000)]
    for k in range(0, 8000, 500):
        train.push(rows[k : k + 500])
        now[0] += 0.1
    fleet.process_available()
    assert fleet.admission.look() is None  # too early to say
    now[0] += 10.0
    replanned = fleet.admission.look()
    assert replanned is not None
    measured = fleet.gateway.meter.mbps()["trains", "t0"]  # type: ignore[index]
    assert measured > 0.1
    assert fleet.admission._current().rate("trains@west") == pytest.approx(measured)
    assert fleet.admission.look() is None  # planned for
    assert "stream 'trains' brings other than planned" in fleet.history.read()[-1]["cause"]
    assert fleet.deployment.placement[InstanceId.parse("q/1@t0")] == "west"
    train.push([{"train": "t0", "load": 30.0, "ts": START + dt.timedelta(seconds=90)}])
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().equal


def test_rows_too_late_for_a_shared_join_are_shown_to_its_readers(station):
    fleet = station.fleet
    pairs = fleet.submit(PAIRS, "pairs")
    for second in (0, 20, 24):
        station.send(second)
        fleet.process_available()
    assert pairs.late().count() == 0
    station.trains["t0"].push([{"train": "t0", "coach": 1, "load": 50.0, "ts": START + dt.timedelta(seconds=1)}])
    fleet.process_available()
    counts = fleet.submit(COUNTS, "counts")  # after that: it has missed nothing
    station.send(28)
    station.end()
    ((train,),) = pairs.late().select("a__train").collect()
    assert train == "t0"
    assert counts.late().count() == 0
    assert {row.partition(" | ")[0] for row in pairs.verdict().missing} == {"t0"}  # what it would have met
    assert counts.verdict().equal


@pytest.mark.parametrize(("weights", "used"), [("pack", 1), ("balance", 2)])
def test_weights_are_chosen_for_a_fleet(open_fleet, weights, used):
    """Two sites of the same size, two filters over devices at one of them: packed at one site, or spread over both."""
    fleet = open_fleet(admission=weights)
    sites = [Site(n, f"r-{n}", cpu=9.0, nic_in_mbps=90.0, nic_out_mbps=90.0) for n in ("west", "east")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, [Link("west", "east")]))  # type: ignore[arg-type]
    fleet.stream("trains", "train string, load double, ts timestamp", device="train", mbps=0.01)
    for name in ("t0", "t1"):
        fleet.device(name, site="west", streams=["trains"])
    for k, name in enumerate(("t0", "t1")):
        fleet.submit(f"SELECT load, ts FROM trains WHERE train = '{name}' AND load > {k}", f"q{k}")
    filters = {node for instance, node in fleet.deployment.placement.items() if instance.operator == 1}
    assert len(filters) == used


def test_unknown_weights_are_refused(open_fleet):
    with pytest.raises(AdmissionError, match="weights 'greedy' are unknown: choose one of paper, pack, balance"):
        open_fleet(admission="greedy")
