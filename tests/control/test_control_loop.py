"""The control loop on disk, without Spark: commands and answers, acknowledgements, silence, and restarts.

Regions are stood in for by a pool that acknowledges when the test says so; everything else is what a fleet runs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from godwit.api.control_loop import ControlLoop
from godwit.api.executor import Executor
from godwit.control.commands import Answer, ChangeTopology, Command, PlaceByHand, Submit, Withdraw
from godwit.control.control_plane import ControlPlane
from godwit.control.events import (
    ChangesArrived,
    DeviceFeeds,
    Event,
    PlacedByHand,
    QuerySubmitted,
    QueryWithdrawn,
    RegionAcked,
    StreamDeclared,
)
from godwit.control.restore import Hints, restore
from godwit.errors import DeploymentError, TopologyError
from godwit.ids import DeviceId, Epoch, QueryId, RegionId, SiteId
from godwit.ingest.gateway import Gateway
from godwit.model.changes import DeviceAdded, DeviceMoved, LinkAdded, SiteAdded
from godwit.model.deployment import Delta, Deployment
from godwit.model.instances import InstanceId
from godwit.model.topology import Site
from godwit.observe.history import History
from godwit.observe.tracker import ReconfigurationTracker
from godwit.region.pool import Key
from godwit.storage.command_log import CommandLog
from godwit.storage.epoch_log import Control
from godwit.storage.store import Store
from tests.control.worlds import FEEDS, STREAMS, aggregate, tree
from tests.waiting import until

#: epochs that it takes to set the world up: two streams, the topology, seven devices that feed streams
BASE = 10
REGIONS = tuple(map(RegionId, ("cloud", "r1", "r2")))


class Regions:
    """All regions of the tree; those that are silent do not acknowledge."""

    def __init__(self, post: Callable[[Event], None]) -> None:
        self.running, self.silent, self._post, self._epoch = False, set[RegionId](), post, Epoch(0)

    def expect(self, before: Deployment, delta: Delta, after: Deployment) -> list[Key]:
        self._epoch = after.epoch
        return []

    def hire(self) -> None:
        pass

    def wake(self) -> None:
        if self.running:
            self.answer()

    def step_all(self, sources: bool = True) -> bool:
        assert not sources
        self.answer()
        return False

    def runs(self, region: RegionId) -> bool:
        return True

    def answer(self) -> None:
        for region in REGIONS:
            if region not in self.silent:
                self._post(RegionAcked(region, self._epoch))


class Plane:
    """A control plane with its logs in a folder; `Plane(root)` again is a restart."""

    def __init__(self, root: Path, strategy: str = "incremental", ack_timeout: float = 0.2) -> None:
        self.events, self.news = deque[Event](), threading.Condition()
        self.regions = Regions(self._post)
        self.store = store = Store.local(root)
        log = Control(store)
        fresh = log.last == 0
        standing, old = log.standing(), log.deployment_at(log.last)
        plane = ControlPlane(
            standing.topology,
            redeployment_strategy=strategy,
            streams=old.streams,
            feeds=old.feeds,
            epoch=Epoch(log.last),
        )
        self.history = History(store)
        tracker = ReconfigurationTracker(self.history, lambda instance, epoch: None)
        parts = (log, Gateway(store), self.regions, tracker, threading.RLock(), self._post)
        self.executor = Executor(plane, *parts)  # type: ignore[arg-type]
        self.commands = CommandLog(store)
        self.dies: set[str] = set()
        self.loop = ControlLoop(
            self.executor,
            self.commands,
            self.carry_out,
            self.regions,  # type: ignore[arg-type]
            self.events,
            self.news,
            ack_timeout,
        )
        if fresh:
            self._set_up()
        else:
            restore(plane.planner, old, Hints(standing.sinks, standing.by_hand))
            with self.loop.driving():
                self.executor.carry_out(plane.coordinator.resume(standing.waiting))
                self.loop.recover(standing.command)

    def _set_up(self) -> None:
        ground = tree()
        for stream in STREAMS.values():
            self.loop.ask(StreamDeclared(stream))
        sites, links, devices = ground.sites.values(), ground.links.values(), ground.devices.values()
        self.loop.ask(ChangesArrived((*map(SiteAdded, sites), *map(LinkAdded, links), *map(DeviceAdded, devices))))
        for stream_id, feeding in FEEDS.items():
            for device in feeding:
                self.loop.ask(DeviceFeeds(device, (stream_id,)))

    def _post(self, event: Event) -> None:
        with self.news:
            self.events.append(event)
            self.news.notify_all()

    def carry_out(self, command: Command, again: bool) -> None:
        match command:
            case Submit(name) if not (again and name in self.executor.deployment.queries):
                self.loop.ask(QuerySubmitted(aggregate(name)))
            case Withdraw(name):
                self.loop.ask(QueryWithdrawn(QueryId(name)))
            case PlaceByHand(placement, cause):
                self.loop.ask(PlacedByHand({InstanceId.parse(i): SiteId(s) for i, s in placement.items()}, cause))
        if type(command).__name__ in self.dies:
            raise KeyboardInterrupt

    def start(self) -> None:
        self.regions.running = True
        self.regions.answer()
        self.loop.start()

    def stop(self) -> None:
        self.loop.stop()
        self.regions.running = False


def move(device: str, site: str) -> ChangeTopology:
    return ChangeTopology((DeviceMoved(DeviceId(device), SiteId(site)),))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Plane]]:
    made: list[Plane] = []

    def _make(**options: object) -> Plane:
        made.append(Plane(tmp_path, **options))  # type: ignore[arg-type]
        return made[-1]

    yield _make
    for one in made:
        one.stop()


@pytest.mark.parametrize("running", [False, True])
def test_a_command_is_answered_with_the_epoch_that_brought_it(make: Callable[..., Plane], running: bool) -> None:
    site = make()
    if running:
        site.start()
    site.loop.execute(Submit("q", ""))
    site.loop.execute(move("d1", "e3"))
    assert site.commands.await_answer(1, 10) == Answer(BASE + 1)
    assert site.commands.await_answer(2, 10) == Answer(BASE + 2)  # (for other processes: it is written last)
    assert site.executor.deployment.epoch == BASE + 2 == site.executor.log.last
    with pytest.raises(TopologyError, match="no such device"):
        site.loop.execute(move("d9", "e3"))
    refused = site.commands.answer_of(3)
    assert refused is not None
    assert (refused.taken, refused.error) == (False, "TopologyError")
    with pytest.raises(DeploymentError, match="already"):
        site.loop.execute(Submit("q", ""))


def test_silence_takes_the_reconfiguration_back_and_an_answer_takes_the_changes_along(
    make: Callable[..., Plane],
) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    site.start()
    until(lambda: site.executor.plane.idle)
    before = dict(site.executor.deployment.placement)
    site.regions.silent.add(RegionId("r2"))
    site.loop.execute(move("d1", "e3"))
    assert site.executor.deployment.devices[DeviceId("d1")] == "e3"
    until(lambda: site.executor.deployment.epoch >= BASE + 4)  # reverted, and planned again without the region
    assert site.executor.plane.coordinator.lost == {"r2"}
    assert site.executor.log.deployment_at(BASE + 3).placement == before
    assert site.executor.log.deployment_at(BASE + 3).devices[DeviceId("d1")] == "e1"
    site.regions.silent.clear()
    site.regions.answer()
    until(lambda: not site.executor.plane.coordinator.lost and site.executor.plane.idle)
    assert site.executor.deployment.devices[DeviceId("d1")] == "e3"
    assert "was lost in the middle" in next(s["reason"] for s in site.history.read() if s["outcome"] == "reverted")


def test_a_restart_after_a_revert_takes_the_changes_along(make: Callable[..., Plane]) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    site.start()
    until(lambda: site.executor.plane.idle)
    site.regions.silent.add(RegionId("r2"))
    site.loop.execute(move("d1", "e3"))
    until(lambda: site.executor.deployment.epoch >= BASE + 3)
    site.stop()
    again = make()
    assert again.executor.deployment.devices[DeviceId("d1")] == "e3"
    assert again.executor.plane.topology.devices[DeviceId("d1")].site == "e3"


def test_a_restart_stands_where_the_fleet_stood(make: Callable[..., Plane]) -> None:
    site = make()
    for name in ("q", "p"):
        site.loop.execute(Submit(name, ""))
    site.loop.execute(move("d1", "e3"))
    site.loop.execute(PlaceByHand({"q/3": "f1"}, "by hand"))
    site.loop.execute(ChangeTopology((SiteAdded(Site(SiteId("e9"), RegionId("r1"))),)))
    again = make()
    assert again.executor.deployment == site.executor.deployment
    mine, theirs = site.executor.plane.planner, again.executor.plane.planner
    assert theirs.ground.placement == mine.ground.placement
    assert theirs.ground.load == {node: load for node, load in mine.ground.load.items() if load}
    assert theirs.route == mine.route
    assert theirs.topology.devices == mine.topology.devices
    assert theirs.topology.adjacency == mine.topology.adjacency
    assert theirs.ground.by_hand == mine.ground.by_hand
    assert theirs.violations() == []
    assert again.executor.plane.epoch == BASE + 5
    again.loop.execute(move("d1", "e1"))
    site.executor.plane.settle()
    site.executor.plane.change([DeviceMoved(DeviceId("d1"), SiteId("e1"))])
    assert theirs.ground.placement == mine.ground.placement


def test_what_was_put_by_hand_survives_the_next_change(make: Callable[..., Plane]) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    site.loop.execute(PlaceByHand({"q/3": "f1"}, "by hand"))
    assert site.executor.deployment.placement[InstanceId.parse("q/3")] == "f1"
    for to in ("e3", "e1", "e4"):
        site.loop.execute(move("d1", to))
        assert site.executor.deployment.placement[InstanceId.parse("q/3")] == "f1"


def test_a_command_that_was_written_and_not_answered_is_carried_out_once(make: Callable[..., Plane]) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    CommandLog(site.store).append(Submit("other", ""))  # while nobody looks
    site.dies.add("Submit")
    with pytest.raises(KeyboardInterrupt):
        site.loop.execute(Submit("p", ""))
    assert set(site.executor.deployment.queries) == {"q", "other"}
    assert site.commands.answer_of(2) is None
    again = make()
    assert set(again.executor.deployment.queries) == {"q", "other", "p"}
    assert [again.commands.answer_of(n) for n in (1, 2, 3)] == [Answer(BASE + 1), Answer(BASE + 2), Answer(BASE + 3)]
    assert again.executor.log.last == BASE + 3


@pytest.mark.parametrize("running", [False, True])
def test_stages_wait_for_acknowledgements(make: Callable[..., Plane], running: bool) -> None:
    site = make(strategy="holistic-serial")
    site.loop.execute(Submit("q", ""))
    if running:
        site.start()
    site.loop.execute(move("d1", "e3"))
    assert site.commands.await_answer(2, 10) == Answer(BASE + 3)  # stop, deploy
    assert not site.executor.deployment.parked
    until(lambda: site.executor.plane.idle) if running else site.loop.turn()


def test_copies_beside_the_log_replace_what_is_forgotten(make: Callable[..., Plane]) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    for k in range(6):
        site.loop.execute(move("d1", f"e{1 + k % 4}"))
    before = site.executor.log.standing()
    assert site.executor.log.forget(BASE + 5) == BASE + 5
    after = Control(site.store).standing()
    assert replace(after, topology=before.topology) == before
    assert after.topology.devices == before.topology.devices
    again = make()
    assert again.executor.deployment == site.executor.deployment


def test_a_change_returns_as_soon_as_it_is_published_without_a_look_at_the_disk(
    make: Callable[..., Plane], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make()
    site.loop.execute(Submit("q", ""))
    site.start()
    monkeypatch.setattr(site.commands, "read", lambda number: pytest.fail("a command of this process was read"))
    for k in range(20):
        site.loop.execute(move("d1", f"e{3 + k % 2}"))
        assert site.executor.deployment.devices[DeviceId("d1")] == f"e{3 + k % 2}"  # published, not only written


def test_a_change_does_not_wait_for_regions_that_are_silent(make: Callable[..., Plane]) -> None:
    site = make(ack_timeout=60.0)
    site.loop.execute(Submit("q", ""))
    site.start()
    site.regions.silent.update(REGIONS)
    epoch = site.executor.deployment.epoch
    site.loop.execute(move("d1", "e3"))
    assert site.executor.deployment.epoch == epoch + 1  # nobody has acknowledged it
    began = time.monotonic()
    site.loop.execute(move("d2", "e4"))  # must wait for the epoch before, and its caller need not
    assert time.monotonic() - began < 5
    site.regions.silent.clear()
    site.regions.answer()
    until(lambda: site.executor.deployment.devices[DeviceId("d2")] == "e4")


def test_whoever_waits_is_released_when_the_loop_ends(make: Callable[..., Plane]) -> None:
    site = make(ack_timeout=60.0)
    site.start()
    site.regions.silent.update(REGIONS)
    site.loop.execute(move("d1", "e3"))
    done = threading.Event()
    # A submission waits until the epoch before it is acknowledged, and nobody does that now.
    waiting = threading.Thread(target=lambda: (site.loop.execute(Submit("q", "")), done.set()), daemon=True)
    waiting.start()
    assert not done.wait(0.05)
    site.regions.running = False
    site.loop.stop()
    site.regions.silent.clear()
    assert done.wait(10)  # it drives the loop itself from here on
    assert "q" in site.executor.deployment.queries
