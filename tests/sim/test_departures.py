"""Devices that leave and come back, and regions that begin to run a shape while others have run it for long."""

from __future__ import annotations

import os
from typing import Any

import pytest

from godwit.ids import DeviceId, QueryId, SiteId
from godwit.model.topology import Device, Topology
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.progress import Progress
from godwit.protocol.watermarks import Mark, WatermarkTracker
from godwit.sim.departures import draw_departures
from godwit.sim.run import play, story
from godwit.sim.schedule import (
    Action,
    Deliver,
    Enter,
    Forget,
    Leave,
    Move,
    Put,
    Schedule,
    Send,
    Sight,
    SubmitQuery,
    Tick,
)
from godwit.sim.world import World
from godwit.sim.worlds import KINDS, PARENT, REGIONS, link, site

SCHEDULES = int(os.environ.get("GODWIT_SCHEDULES", "10000")) // 20
EVERYWHERE = [Tick(region, Sight()) for region in ("west", "east", "cloud")]
SETTLE = [Deliver(9), *EVERYWHERE * 3, Deliver(9)]
#: the control plane and other regions are heard, sources are not read
NO_SOURCES = Sight(sources=0)
BLIND_WEST = [Deliver(9), *[Tick("west", NO_SOURCES), Tick("cloud", Sight()), Tick("east", Sight())] * 4, Deliver(9)]


def test_devices_that_leave_and_come_back_at_any_moment() -> None:
    for seed in range(SCHEDULES):
        schedule = draw_departures(seed)
        assert not play(schedule), story(schedule)


def _west_and_cloud() -> Topology:
    """d1 is in the west, the others in the cloud: nothing runs in the east."""
    sites = [site(name) for names in REGIONS.values() for name in names]
    places = {"d1": "a1", "d2": "c", "d3": "c"}
    devices = [Device(DeviceId(name), SiteId(place)) for name, place in places.items()]
    return Topology.of(sites, [link(name) for name in PARENT], devices)


def _assert_exact(*seeds: int) -> None:
    assert all(play(draw_departures(seed)) == [] for seed in seeds)


def _played(actions: list[Action]) -> World:
    world = World(Schedule(0, "bottom-up", "incremental", tuple(actions)))
    for action in actions:
        world.play(action)
    return world


BEGIN: list[Action] = [
    SubmitQuery("q0", "tumbling", 0),
    *SETTLE,
    Send("d1", "left", ((21, 0, 1),)),
    Send("d2", "left", ((21, 0, 1),)),
    *SETTLE,
]
TO_THE_EAST: list[Action] = [Put("q0", 3, "hb"), *BLIND_WEST]
#: what the cloud's device sends closes the window, unless somebody waits for the west
ON: list[Action] = [Send("d2", "left", ((45, 0, 1),)), *BLIND_WEST]
UNREAD = Send("d1", "left", ((22, 0, 2),))
NEWCOMERS: dict[str, list[Action]] = {
    "a device has left, and the west has not read all of it": [
        *BEGIN,
        UNREAD,
        Leave("d1"),
        *BLIND_WEST,
        *TO_THE_EAST,
        *ON,
    ],
    "a device came and left, and the west has read nothing of it": [
        *BEGIN,
        Leave("d1"),
        *SETTLE,
        Forget(),
        *SETTLE,
        Enter("d1", "a2"),
        *BLIND_WEST,
        UNREAD,
        Leave("d1"),
        *BLIND_WEST,
        *TO_THE_EAST,
        *ON,
    ],
    "a device has moved on, and the west has not read all of it": [
        *BEGIN,
        UNREAD,
        Move("d1", "c"),
        *BLIND_WEST,
        Send("d1", "left", ((45, 0, 1),)),
        *TO_THE_EAST,
        *ON,
    ],
    "a device came and moved on, and the west has read nothing of it": [
        *BEGIN,
        Leave("d1"),
        *SETTLE,
        Forget(),
        *SETTLE,
        Enter("d1", "a2"),
        *BLIND_WEST,
        UNREAD,
        Move("d1", "c"),
        *BLIND_WEST,
        Send("d1", "left", ((45, 0, 1),)),
        *TO_THE_EAST,
        *ON,
    ],
}


@pytest.mark.parametrize("case", NEWCOMERS)
def test_a_region_that_joins_waits_for_what_others_have_not_read(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    world = _played(NEWCOMERS[case])
    assert "east" in {region for region, _ in world.runners}
    assert (0, 30, 2, 2) not in world.emitted(QueryId("q0"))
    world.finish()
    assert world.faults() == []


def test_a_query_that_begins_in_a_new_region_waits_for_what_others_have_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    world = _played([*BEGIN, UNREAD, Move("d1", "c"), *BLIND_WEST])
    query = KINDS["tumbling"]("q9", 1)
    world.queries[query.id] = query
    world._carry_out(world.plane.submit(query, SiteId("hb"), {(query.id, 3, None): SiteId("hb")}))
    sends: list[Action] = [Send(device, "left", ((45, 0, 1),)) for device in ("d1", "d2")]
    for action in [*sends, *[Tick("cloud", Sight()), Tick("east", Sight())] * 4]:
        world.play(action)
    world.finish()
    assert world.faults() == []


def test_a_region_that_joins_does_not_wait_for_sessions_that_ended_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    hops: list[Action] = [step for to in ("c", "a2", "c") for step in (Move("d1", to), *SETTLE)]
    closing: list[Action] = [Send(device, "left", ((45, 0, 1),)) for device in ("d1", "d2")]
    world = _played([*BEGIN, *hops, Put("q0", 3, "hb"), *SETTLE, *closing, *SETTLE])
    assert (0, 30, 2, 2) in world.emitted(QueryId("q0"))
    world.finish()
    assert world.faults() == []


def test_what_a_forgotten_device_sent_is_waited_for_where_it_is_still_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The west has read all of d1 and it is forgotten; the cloud has not heard from the west yet."""
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    deaf = Tick("cloud", Sight(peers=(0, 0)))
    unheard: list[Action] = [Deliver(9), *[Tick("west", Sight()), deaf] * 3, Deliver(9)]
    world = _played([*BEGIN, UNREAD, Leave("d1"), *unheard, Forget(), *unheard])
    assert DeviceId("d1") not in world.deployment.stays
    for action in (Send("d2", "left", ((45, 0, 1),)), *[deaf] * 3):
        world.play(action)
    assert not world.emitted(QueryId("q0"))
    world.finish()
    assert world.faults() == []


@pytest.mark.parametrize("kind", ["tumbling", "both", "counted_join"])
def test_a_stream_whose_devices_have_all_left_waits_for_the_next(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    leave: list[Action] = [step for device in ("d1", "d2", "d3") for step in (Leave(device), *SETTLE)]
    sends: list[Action] = [
        Send(d, s, ((24, 0, 3), (26, 0, 3))) for d, s in (("d1", "left"), ("d2", "left"), ("d3", "right"))
    ]
    back: list[Action] = [step for device in ("d1", "d2", "d3") for step in (Enter(device, "b1"), *SETTLE)]
    world = _played([SubmitQuery("q0", kind, 0), *SETTLE, *sends, *SETTLE, *leave, Forget(), *SETTLE])
    assert not world.deployment.stays
    for action in [*back, *sends, *SETTLE]:
        world.play(action)
    world.finish()
    assert world.faults() == []


def test_nothing_is_left_of_devices_that_were_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.sim.world.topology", _west_and_cloud)
    cycle: list[Action] = [Enter("d1", "a1"), *SETTLE, UNREAD, *SETTLE, Leave("d1"), *SETTLE, Forget(), *SETTLE]
    world = _played([SubmitQuery("q0", "tumbling", 0), *SETTLE, Leave("d1"), *SETTLE, Forget(), *SETTLE, *cycle])
    sizes = _sizes(world)
    for action in cycle * 5:
        world.play(action)
    assert _sizes(world) == sizes
    assert all("d1" not in table for table in (world.deployment.sessions, world.deployment.stays))
    assert all("d1" not in fed for fed in world.deployment.feeds.values())


def _sizes(world: World) -> dict[Any, int]:
    return {key: runner.kernel.snapshot().rows for key, runner in world.runners.items()}


# --- rules without which the tests above fail


_begin = RegionKernel._begin_queries


def _begin_without_waiting(kernel: RegionKernel, before: Any, after: Any) -> None:
    known = dict(kernel.moves.resumed)
    _begin(kernel, before, after)
    kernel.moves.resumed = known


def _expect_without_announcing(kernel: RegionKernel, progress: Progress, deployment: Any) -> None:
    for expected in progress.expected():
        kernel.book.expect(*expected)


def _publish_ends_once(kernel: RegionKernel) -> None:
    kernel.own_marks = {key: mark for key, mark in kernel.own_marks.items() if not mark.over}


def _forget_at_once(kernel: RegionKernel) -> None:
    for operator, source in kernel._departing:
        kernel.book.forget(source, operator)


_hear = WatermarkTracker.hear


def _ignore_earlier(book: WatermarkTracker, operator: int, source: str, mark: Mark) -> None:
    known = book.mark(operator, source)
    if known is None or mark.session >= known.session:
        _hear(book, operator, source, mark)


BROKEN: dict[str, tuple[type, str, Any]] = {
    "a query begins in a new region and releases at once": (RegionKernel, "_begin_queries", _begin_without_waiting),
    "sources that were not read are not announced": (RegionKernel, "_expect", _expect_without_announcing),
    "ends of sessions are published once": (RegionKernel, "_forget_published", _publish_ends_once),
    "what left is forgotten at once": (RegionKernel, "_forget_departed", _forget_at_once),
    "earlier sessions are ignored": (WatermarkTracker, "hear", _ignore_earlier),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_caught(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setattr(*BROKEN[broken])
    checks = [
        *(
            lambda m, case=case: test_a_region_that_joins_waits_for_what_others_have_not_read(m, case)
            for case in NEWCOMERS
        ),
        test_what_a_forgotten_device_sent_is_waited_for_where_it_is_still_on_its_way,
        test_a_query_that_begins_in_a_new_region_waits_for_what_others_have_not_read,
        test_a_region_that_joins_does_not_wait_for_sessions_that_ended_before,
        lambda m: _assert_exact(0, 42, 48),
    ]
    caught = 0
    for check in checks:
        try:
            check(monkeypatch)
        except AssertionError:
            caught += 1
    assert caught
