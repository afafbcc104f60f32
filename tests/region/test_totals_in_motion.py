"""Totals of single keys that migrate one after the other, in a row, while rows come: the results are the oracle's."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.region.link_emulator import Links
from tests.region.test_key_migration import TOTALS
from tests.region.world import Push, World


@pytest.mark.full
@pytest.mark.parametrize("round_trip_ms", [0, 80])
def test_totals_whose_keys_migrate_one_by_one_while_the_fleet_runs(
    open_fleet: Callable[..., Fleet], round_trip_ms: float
) -> None:
    links = Links(round_trip_ms=round_trip_ms) if round_trip_ms else None
    world = World(lambda **options: open_fleet(**options, links=links), {"totals": TOTALS})
    world.fleet.start()
    second = 0
    for number in range(16):
        world.fleet.migrate("totals", keys=[f"t{number % 4}"], to=("west", "cloud")[number // 4 % 2], strategy="falcon")
        for _ in range(3):
            world.play([Push(train, second, 2) for train in range(4)])
            second += 1
            time.sleep(0.02)
    assert [str(v) for v in world.finish() if not v.equal] == []
