"""Faults while keys migrate: a link that is cut and comes back, news that are lost, a destination that moves again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from godwit.api.fleet import Fleet
from godwit.region.link_emulator import Links
from tests.region.test_key_migration import TOTALS, Recording, wrong_totals
from tests.region.world import QUERIES, Push

#: how long a link is away (seconds)
AWAY = 0.4


@dataclass(frozen=True)
class CutLinks(Links):
    """What is sent while a link is away comes when it is back, in order."""

    round_trip_ms: float = 40.0
    #: when the link is back
    back: list[float] = field(default_factory=lambda: [0.0])

    def seconds(self, one: str, other: str) -> float:
        away = max(self.back[0] - time.time(), 0.0) if one != other else 0.0
        return super().seconds(one, other) + away


def migrating(world: Recording, query: str, strategy: str, fault: Callable[[int], None]) -> None:
    """Rows come all the time; keys go round, and on before they have arrived; something goes wrong each time."""
    world.fleet.start()
    ways = [("west", "east"), ("cloud", "west"), ("east", "cloud")]
    for second in range(0, 54, 3):
        world.play([Push(train, second, 3) for train in range(4)])
        if second % 18 == 3:
            for to in ways[second // 18]:
                world.fleet.migrate(query, keys=["t0", "t1"], to=to, strategy=strategy)
            time.sleep(0.02 * (second // 18))
            fault(second // 18)
        time.sleep(0.05)


def judge(world: Recording, query: str) -> None:
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert query != "totals" or wrong_totals(world) == []
    assert not world.fleet.plane.keys.active
    assert not world.fleet.plane.keys.queued
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) >= 4


KINDS = [("totals", "falcon"), ("tumbling", "delta")]
MORE = [("totals", s) for s in ("hot-backup", "on-demand", "partial-pause", "full-restart")]
MORE = [*MORE, ("tumbling", "falcon"), ("tumbling", "falcon-oop"), ("tumbling", "partial-pause")]


@pytest.mark.parametrize(("query", "strategy"), [*KINDS, *(pytest.param(*m, marks=pytest.mark.full) for m in MORE)])
def test_a_link_is_cut_while_keys_migrate_and_comes_back(
    open_fleet: Callable[..., Fleet], query: str, strategy: str
) -> None:
    links = CutLinks()
    queries = {"totals": TOTALS, "tumbling": QUERIES["tumbling"]}
    world = Recording(lambda **options: open_fleet(**options, links=links), {query: queries[query]})
    migrating(world, query, strategy, lambda number: links.back.__setitem__(0, time.time() + AWAY))
    judge(world, query)


@pytest.mark.full
@pytest.mark.parametrize(("query", "strategy"), [*KINDS, *MORE])
def test_nobody_is_told_of_a_marker_while_keys_migrate(
    open_fleet: Callable[..., Fleet], query: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markers lie in logs; who is not told of them finds them with the slow look."""
    queries = {"totals": TOTALS, "tumbling": QUERIES["tumbling"]}
    world = Recording(open_fleet, {query: queries[query]})
    lost: list[object] = []

    def deaf(number: int) -> None:
        with monkeypatch.context() as deaf:
            for news in ("_seen", "_hears"):  # of messages, and of epochs
                deaf.setattr(world.fleet.pool, news, lambda *told: lost.append(told))
            time.sleep(AWAY)

    migrating(world, query, strategy, deaf)
    judge(world, query)
    assert lost
