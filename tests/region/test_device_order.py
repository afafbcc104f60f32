"""Rows of a device come out in the order in which it sent them, though the region that it has left is slower."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import Execution, SizePolicy
from godwit.ids import DeviceId, QueryId
from godwit.model.changes import DeviceRemoved
from godwit.model.plan import QUERY
from tests.region.world import sized, three_regions

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PASSING = "SELECT train, n, ts FROM trains WHERE n >= {}"


def ground(fleet: Fleet) -> None:
    fleet.topology.add(three_regions())
    fleet.stream("trains", "train string, n int, ts timestamp", device="train")
    for train in ("t0", "t1"):
        fleet.device(train, site="west", streams=["trains"])
    fleet.device("t2", site="east", streams=["trains"])


def rows(train: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"train": train, "n": n, "ts": START + dt.timedelta(seconds=n)} for n in numbers]


def pause(fleet: Fleet, region: str, what: str = "entries") -> Callable[[], None]:
    """The region takes in epochs and others' messages, but reads no rows, until the returned function is called. With
    `messages`, the other way round."""
    readers = [runner.reader for (name, _), runner in fleet.pool.runners.items() if name == region]
    for reader in readers:
        setattr(reader, what, lambda *_: iter(()))

    def go_on() -> None:
        for reader in readers:
            delattr(reader, what)

    return go_on


def steps(fleet: Fleet, count: int = 8) -> None:
    for _ in range(count):
        fleet.pool.step_all()


def came_out(fleet: Fleet, train: str, query: str = "q") -> list[int]:
    """In the order of commits."""
    known = fleet.deployment.queries[fleet.query(query).id]
    segments = fleet.pool.results(known.shape.key, known.id)
    tables = [table for segment in segments for table in segment.tables()]
    found = [row for table in tables for row in table.to_pylist()]
    return [row["n"] for row in found if (row[QUERY], row["train"]) == (known.id, train)]


def ended(fleet: Fleet) -> None:
    fleet.close_sources()
    fleet.process_available()
    assert all(fleet.query(name).verdict().equal for name in fleet.deployment.queries)
    assert not any(runner.memory.rooms for runner in fleet.pool.runners.values())


@pytest.mark.parametrize("sink", ["cloud", "west", "east"])
@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
def test_rows_wait_for_those_that_their_device_sent_before(open_fleet: OpenFleet, sink: str, restart: bool) -> None:
    fleet = open_fleet()
    ground(fleet)
    fleet.submit(PASSING.format(0), "q", sink=sink)
    fleet.process_available()
    go_on = pause(fleet, "edge-west")
    fleet.push("trains", rows("t0", 1, 2) + rows("t1", 1))
    fleet.device("t0").attach("east")
    fleet.push("trains", rows("t0", 3) + rows("t2", 1))  # one entry of the east's log
    fleet.push("trains", rows("t2", 2))
    fleet.push("trains", rows("t0", 4))
    steps(fleet)
    assert came_out(fleet, "t0") == []
    assert came_out(fleet, "t2") == [1, 2]  # nobody else waits
    assert any("trains/t0" in told for told in fleet.metrics.waits(fleet.execution(QueryId("q"))))
    # (what waits in the east came before it, the west has read nothing)
    fleet.submit(PASSING.format(1), "younger", sink=sink)
    steps(fleet)
    if restart:
        fleet.stop()
        fleet = open_fleet()
    else:
        go_on()
    fleet.push("trains", rows("t0", 5))
    fleet.process_available()
    assert came_out(fleet, "t0") == [1, 2, 3, 4, 5]
    assert came_out(fleet, "t1") == [1]
    assert came_out(fleet, "t0", "younger") == [1, 2, 5]
    ended(fleet)


def test_a_device_that_goes_on_and_comes_back_is_not_overtaken_by_itself(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    ground(fleet)
    fleet.submit(PASSING.format(0), "q", sink="cloud")
    fleet.process_available()
    go_on = pause(fleet, "edge-west")
    train = fleet.device("t0")
    for n, site in enumerate(("west", "east", "cloud", "east", "west", "cloud")):
        train.attach(site)
        train.push(rows("t0", n))
        steps(fleet, 3)
    assert came_out(fleet, "t0") == []
    go_on()
    fleet.process_available()
    assert came_out(fleet, "t0") == [0, 1, 2, 3, 4, 5]
    ended(fleet)


def test_a_device_that_left_is_not_waited_for_when_it_comes_again(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    ground(fleet)
    fleet.submit(PASSING.format(0), "q", sink="cloud")
    fleet.device("t0").push(rows("t0", 1))
    fleet.process_available()
    fleet.change([DeviceRemoved(DeviceId("t0"))])
    fleet.process_available()
    fleet.device("t0", site="east", streams=["trains"]).push(rows("t0", 2))
    fleet.process_available()
    assert came_out(fleet, "t0") == [1, 2]
    ended(fleet)


class Committed:
    """The results of a query in the order in which they were committed, wherever that was."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._known: Counter[str] = Counter()

    def watch(self, fleet: Fleet) -> None:
        for runner in fleet.pool.runners.values():
            runner.step = self._noting(fleet, runner.step)  # type: ignore[method-assign]

    def of(self, train: str) -> list[int]:
        return [row["n"] for row in self.rows if row["train"] == train]

    def _noting(self, fleet: Fleet, step: Callable[..., Any]) -> Callable[..., Any]:
        def noting(sources: bool = True) -> Any:
            made = step(sources)
            for region, found in fleet.pool.results_by_region(fleet.execution(QueryId("q")).shape.key).items():
                for segment in found[self._known[region] :]:
                    self.rows += [row for table in segment.tables() for row in table.to_pylist()]
                self._known[region] = len(found)
            return made

        return noting


@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("large", [False, True], ids=["few", "large"])
def test_results_of_a_moved_sink_wait_for_those_of_its_old_region(
    open_fleet: OpenFleet, restart: bool, large: bool
) -> None:
    open_sized = sized(open_fleet, SizePolicy.forced(Execution.LARGE)) if large else open_fleet
    fleet, found = open_sized(), Committed()
    ground(fleet)
    fleet.submit(PASSING.format(0), "q", sink="cloud")
    sink = len(fleet.execution(QueryId("q")).shape.plan.operators) - 1
    fleet.process_available()
    found.watch(fleet)
    go_on = pause(fleet, "cloud", "messages")
    fleet.push("trains", rows("t0", 1, 2) + rows("t1", 1))
    fleet.push("trains", rows("t2", 1))
    steps(fleet)  # on their way to the cloud, which does not read them
    fleet.move({f"q/{sink}": "east"})
    fleet.push("trains", rows("t0", 3) + rows("t1", 2))
    fleet.push("trains", rows("t2", 2))
    steps(fleet)
    assert found.rows == []
    if restart:
        fleet.stop()
        fleet = open_sized()
        found.watch(fleet)
    else:
        go_on()
    fleet.device("t0").attach("east")
    fleet.push("trains", rows("t0", 4))
    steps(fleet, 1)
    fleet.move({f"q/{sink}": "west"})
    fleet.push("trains", rows("t0", 5) + rows("t1", 3))
    fleet.process_available()
    assert (found.of("t0"), found.of("t1"), found.of("t2")) == ([1, 2, 3, 4, 5], [1, 2, 3], [1, 2])
    ended(fleet)


@pytest.mark.parametrize("order", ["device", "none"])
def test_a_query_whose_order_does_not_matter_does_not_wait(open_fleet: OpenFleet, order: Any) -> None:
    fleet = open_fleet()
    ground(fleet)
    fleet.submit(PASSING.format(0), "q", sink="cloud", order=order)
    fleet.process_available()
    go_on = pause(fleet, "edge-west")
    fleet.push("trains", rows("t0", 1, 2))
    fleet.device("t0").attach("east")
    fleet.push("trains", rows("t0", 3))
    steps(fleet)
    assert came_out(fleet, "t0") == ([] if order == "device" else [3])
    go_on()
    fleet.process_available()
    assert came_out(fleet, "t0") == ([1, 2, 3] if order == "device" else [3, 1, 2])
    ended(fleet)
