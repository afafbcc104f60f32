"""Links with a latency: what a region writes is seen elsewhere later, and results stay the oracle's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.testing.link_delays import LinkDelays
from godwit.testing.link_emulator import Links
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
