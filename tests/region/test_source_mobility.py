"""Keys follow their sources while the fleet runs: up at once, down after a dwell; the results are the oracle's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from godwit.errors import ConfigError
from godwit.ids import SiteId
from godwit.migration.source_mobility import Following
from godwit.mobility.driver import Driver, Feed, FleetTarget
from godwit.mobility.trace import Trace, TraceEvent
from godwit.model.keys import listed
from godwit.model.topology import Link, Site, Topology
from godwit.testing.rows import START
from tests.waiting import until

TOTALS = "SELECT /*+ keep('forever') */ car, count(*) AS n, sum(speed) AS s FROM cars GROUP BY car"
WINDOWS = "SELECT car, count(*) AS n, window.end AS until FROM cars GROUP BY car, window(ts, '5 seconds')"
DWELL = 0.6


class Cars:
    """A cloud, edges below it (some of them below a metro site), and cars that send."""

    def __init__(
        self,
        open_fleet: Callable[..., Fleet],
        sql: str,
        strategy: str = "auto",
        metro: bool = False,
        dwell: float = DWELL,
    ) -> None:
        fleet = self.fleet = open_fleet(mobility=Following(dwell=dwell, strategy=strategy))
        names = ["cloud", *(["metro"] if metro else []), "e1", "e2", "e3"]
        above = {
            "metro": "cloud",
            "e1": "metro" if metro else "cloud",
            "e2": "metro" if metro else "cloud",
            "e3": "cloud",
        }
        fleet.topology.add(
            Topology.of(
                [Site(n, n, cpu=1000.0, kind="cloud" if n == "cloud" else "edge") for n in names],  # type: ignore[arg-type]
                [Link(n, above[n], ms=5) for n in names[1:]],  # type: ignore[arg-type]
            )
        )
        fleet.stream("cars", "car string, speed int, ts timestamp", device="car", disorder="1 second")
        fleet.device("c0", site="e1", streams=["cars"])
        fleet.device("c1", site="e3", streams=["cars"])
        fleet.submit(sql, "q", sink="cloud")
        plan = fleet.deployment.queries["q"].shape.plan  # type: ignore[index]
        self.operator = next(i for i, node in enumerate(plan.operators) if node.stateful)
        fleet.move({f"q/{i}": "cloud" for i in range(len(plan.operators)) if not plan.is_local(i)})
        self.second = 0
        fleet.start()

    def send(self) -> None:
        self.second += 1
        for number in range(2):
            at = START + timedelta(seconds=self.second)
            rows: list[dict[str, Any]] = [{"car": f"c{number}", "speed": self.second % 7, "ts": at}]
            self.fleet.device(f"c{number}").push(rows)

    def until(self, site: str, seconds: float = 30.0) -> None:
        """Rows come until the first car's key is processed there."""
        end = time.time() + seconds
        while self.at() != site or self.fleet.plane.keys.busy:
            assert time.time() < end, f"the key is at {self.at()}, not at {site}: {self.fleet.plane.keys}"
            self.send()
            self.fleet.check()
            time.sleep(0.05)

    def way(self) -> list[str]:
        """The sites that the first car's key has been migrated to."""
        ended = [one for one, outcome in self.fleet.plane.keys.ended if outcome == "done"]
        return [one.site for one in ended if one.keys == listed("c0")]

    def at(self) -> str | None:
        table = self.fleet.deployment.key_routes.get(("q", self.operator))  # type: ignore[call-overload]
        return str(table.route_of(("c0",)).process) if table is not None else "cloud"

    def equal(self) -> None:
        self.fleet.close_sources()
        self.fleet.process_available()
        verdict = self.fleet.query("q").verdict()
        assert verdict.equal, str(verdict)


@pytest.mark.parametrize(
    ("sql", "strategy"), [(TOTALS, "auto"), pytest.param(WINDOWS, "auto", marks=pytest.mark.full), (WINDOWS, "falcon")]
)
def test_a_key_follows_its_car_up_and_down(open_fleet: Callable[..., Fleet], sql: str, strategy: str) -> None:
    cars = Cars(open_fleet, sql, strategy)
    cars.until("e1")
    cars.fleet.device("c0").attach("e2")
    cars.until("e2")
    assert cars.way() == ["e1", "cloud", "e2"]
    for site in ("e3", "e1", "e3"):  # too fast to be followed down
        cars.fleet.device("c0").attach(site)
        cars.send()
        time.sleep(DWELL / 4)
    cars.until("e3")
    assert cars.way()[3] == "cloud"
    cars.equal()


def test_in_a_deeper_hierarchy_a_key_goes_no_further_up_than_it_must(open_fleet: Callable[..., Fleet]) -> None:
    cars = Cars(open_fleet, TOTALS, metro=True)
    cars.until("e1")
    policy = cars.fleet.mobility.watched["q", cars.operator].policy  # type: ignore[index]
    until(lambda: policy.below(SiteId("cloud"))[SiteId("metro")] == {("c0",)})
    cars.fleet.notify_handover("c0", "e2")
    cars.until("e2")
    cars.fleet.notify_handover("c0", "e3")
    cars.until("e3")
    assert cars.way() == ["e1", "metro", "e2", "cloud", "e3"]
    cars.equal()


def test_a_key_that_was_migrated_by_hand_goes_up_from_there(open_fleet: Callable[..., Fleet]) -> None:
    cars = Cars(open_fleet, TOTALS, dwell=600.0)
    cars.send()
    policy = until(lambda: cars.fleet.mobility.watched.get(("q", cars.operator))).policy  # type: ignore[call-overload]
    until(lambda: ("c0",) in policy.keys)
    cars.fleet.migrate("q", keys=["c0"], to="e1")
    cars.until("e1")
    cars.fleet.notify_handover("c0", "e2")
    cars.until("cloud")
    cars.equal()


def test_ping_pong_is_let_finish_upwards_and_cancelled_downwards(open_fleet: Callable[..., Fleet]) -> None:
    """Whether a cancellation comes in time depends on the machine: either way the key ends where its car is."""
    cars = Cars(open_fleet, TOTALS, "falcon")
    cars.until("e1")
    for _ in range(3):
        cars.fleet.notify_handover("c0", "e2")
        cars.send()
        cars.fleet.notify_handover("c0", "e1")
        cars.send()
    policy = cars.fleet.mobility.watched["q", cars.operator].policy  # type: ignore[index]
    end = time.time() + 30
    while "cloud" not in cars.way() or (policy.keys["c0",].going != "e1" and cars.at() != "e1"):
        assert time.time() < end, f"it was let finish its way up: {cars.way()}, {policy.keys}"
        cars.send()
        time.sleep(0.01)
    cars.fleet.notify_handover("c0", "e2")
    cars.until("e2")
    cars.equal()


class Speeds:
    """One row per tick, after all that the cars have sent before."""

    def __init__(self, since: int) -> None:
        self._since = since

    def batch(self, device: str, t0_ms: int, t1_ms: int) -> pa.Table:
        at = START + timedelta(seconds=self._since, milliseconds=t0_ms)
        return pa.table({"car": [device], "speed": pa.array([3], pa.int32()), "ts": [at]})


def test_a_trace_drives_it(open_fleet: Callable[..., Fleet]) -> None:
    """The car hops along the edges as the trace says; its key goes up with the first hop, and down where it stays."""
    cars = Cars(open_fleet, WINDOWS)
    cars.until("e1")
    hops = [TraceEvent(0, "c0", "attach", "e1", None)]
    for number, (site, before) in enumerate([("e2", "e1"), ("e3", "e2"), ("e2", "e3")]):
        hops.append(TraceEvent(200 + number * 250, "c0", "handover", site, before))
    start = int((START + timedelta(seconds=cars.second + 1)).timestamp() * 1000)
    feed = Feed("cars", Speeds(cars.second + 1), 1000)
    driver = Driver(
        Trace(3000, tuple(hops)), [feed], FleetTarget(cars.fleet), start, tick_ms=100, attached={"c0": "e1"}
    )
    driver.play()
    cars.second += 5
    cars.until("e2")
    assert cars.way() == ["e1", "cloud", "e2"], "not down to the edges that it only passed"
    cars.equal()


def test_a_key_that_several_devices_send_stays(open_fleet: Callable[..., Fleet]) -> None:
    cars = Cars(
        open_fleet, "SELECT speed, count(*) AS n, window.end AS u FROM cars GROUP BY speed, window(ts, '5 seconds')"
    )
    for _ in range(20):
        cars.send()
        time.sleep(0.05)
    time.sleep(DWELL)
    assert not cars.fleet.deployment.key_routes
    cars.equal()


def test_a_notification_needs_the_option(open_fleet: Callable[..., Fleet]) -> None:
    with pytest.raises(ConfigError, match="mobility=True"):
        open_fleet().notify_handover("c0", "e1")
