"""A region that stops answering in the middle of a reconfiguration of a running fleet, and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from godwit.api.fleet import Fleet
from tests.region.world import QUERIES, Push, World
from tests.waiting import until


def test_a_silent_region_is_reverted_the_others_go_on_and_its_return_takes_the_changes_along(
    open_fleet: Callable[..., Fleet],
) -> None:
    gate, inside = threading.Event(), threading.Event()
    gate.set()

    def at(moment: str) -> None:
        if moment == "polled" and not gate.is_set() and threading.current_thread().name.startswith("edge-east/"):
            inside.set()
            gate.wait(120)

    def opened(**options: Any) -> Fleet:
        return open_fleet(**{**options, "at": at, "ack_timeout": 1.0})

    world = World(opened, {name: QUERIES[name] for name in ("tumbling", "join")})
    fleet = world.fleet
    fleet.start()
    world.play([Push(train, 1.0, 3) for train in range(4)])
    fleet.process_available()
    gate.clear()
    world.play([Push(1, 5.0, 3)])  # east has work, and gets stuck in it
    assert inside.wait(60)
    world.handles[0].attach("east")
    until(lambda: any(story["outcome"] == "reverted" for story in fleet.history.read()))
    assert "edge-east" in fleet.plane.coordinator.lost
    west = next(r for (region, _), r in fleet.pool.runners.items() if region == "edge-west")
    before = west.commits.last
    world.play([Push(2, 6.0, 3), Push(2, 9.0, 3)])
    until(lambda: west.commits.last > before)  # the others go on
    gate.set()
    until(lambda: not fleet.plane.coordinator.lost and fleet.plane.idle)
    assert fleet.deployment.devices["t0"] == "east"  # type: ignore[index]
    world.play([Push(train, 12.0, 3) for train in range(4)])
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_rows_of_a_device_are_taken_while_the_epoch_that_moves_it_is_on_its_way(
    open_fleet: Callable[..., Fleet],
) -> None:
    gate, inside, stuck = threading.Event(), threading.Event(), threading.Event()

    def at(moment: str) -> None:
        if moment == "polled" and stuck.is_set() and threading.current_thread().name.startswith("edge-west/"):
            inside.set()
            gate.wait(20)

    world = World(lambda **options: open_fleet(**{**options, "at": at}), {"tumbling": QUERIES["tumbling"]})
    fleet = world.fleet
    fleet.start()
    world.play([Push(train, 1.0, 3) for train in range(4)])
    fleet.process_available()
    late = fleet.device("t9", streams=["passengers"])
    stuck.set()
    world.play([Push(0, 5.0, 3)])  # west has work, gets stuck in it and acknowledges nothing
    assert inside.wait(60)
    train = world.handles[0]
    train.detach()
    train.attach("east")
    assert fleet.deployment.devices[train.id] != "east", "the epoch cannot be published yet"
    began = time.monotonic()
    world.play([Push(0, 6.0, 3), Push(0, 7.0, 3)])
    assert train.buffered == 0
    assert time.monotonic() - began < 5
    threading.Timer(0.5, gate.set).start()
    late.attach("west")
    assert late.push(world._rows(9, 8.0, 2)), "its first epoch is waited for: nobody else could take the rows"
    world.play([Push(train, 12.0, 3) for train in range(4)])
    assert [str(v) for v in world.finish() if not v.equal] == []
