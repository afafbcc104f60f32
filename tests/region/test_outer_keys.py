"""Keys of outer, semi, anti and as-of joins migrate while rows come: who has no partner is told once, by one owner."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.migration.phases import KEY_STRATEGIES
from tests.region.test_late_state import KNOWN
from tests.region.test_outer_joins import OUTER
from tests.region.world import Action, Push, Step, World

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 6) for train in range(4)]
ALL = Step((0, 1, 2))
JOINS = {**{name: OUTER[name] for name in ("left", "right", "full", "semi", "anti")}, "asof": KNOWN["AsofJoin"]}
FEW = {name: JOINS[name] for name in ("full", "semi", "asof")}
#: (from bucket, to bucket, where it goes): coaches 2, 0 and 1 are in 13, 33 and 55
RANGES = ((0, 40, "west"), (20, 64, "east"), (0, 50, "cloud"), (30, 64, "west"))
CHEAP = ("delta", "falcon", "hot-backup")


def stateful(fleet: Fleet, name: str) -> int:
    operators = fleet.deployment.queries[fleet.known(name)].shape.plan.operators
    return next(i for i, node in enumerate(operators) if node.stateful)


def rounds(world: World, names: list[str], strategy: str, steps: list[Action]) -> None:
    """Keys go round the regions in parts that overlap; regions see more and less of each other meanwhile."""
    world.play([*ROWS[:6], ALL])
    for number, (low, high, to) in enumerate(RANGES):
        rows = ROWS[6 + 4 * number : 10 + 4 * number]
        for name in names:
            world.fleet.migrate(
                name, keys=("buckets", low, high), to=to, strategy=strategy, operator=stateful(world.fleet, name)
            )
        world.play([*rows[:2], *steps, *rows[2:], Step((2, 1, 0)), ALL])
    world.play(ROWS[22:])


def wrong(world: World) -> list[str]:
    return [str(verdict) for verdict in world.finish() if not verdict.equal]


@pytest.mark.parametrize(
    "strategy", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.full) for name in KEY_STRATEGIES]
)
def test_absence_is_told_once_by_every_strategy(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = World(open_fleet, JOINS if strategy == "delta" else FEW)
    names = [name for name in world.queries if strategy != "delta" or name != "asof"]
    rounds(world, names, strategy, [Step((0, 1)), Step((1, 2, 0))])
    assert wrong(world) == []
    done = [one.query for one, outcome in world.fleet.plane.keys.ended if outcome == "done"]
    assert all(done.count(world.fleet.known(name)) >= 3 for name in names)
    assert not world.fleet.plane.keys.active
    for runner in world.fleet.pool.runners.values():
        assert not runner.memory.rooms
