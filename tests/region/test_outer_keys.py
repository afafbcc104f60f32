"""Keys of outer, semi, anti and as-of joins migrate while rows come: who has no partner is told once, by one owner."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from godwit.migration.phases import AUTO, KEY_STRATEGIES
from tests.region.test_late_state import KNOWN
from tests.region.test_outer_joins import OUTER
from tests.region.world import Action, Attach, Crash, Move, Push, Step, World, sized

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 6) for train in range(4)]
ALL = Step((0, 1, 2))
JOINS = {**{name: OUTER[name] for name in ("left", "right", "full", "semi", "anti")}, "asof": KNOWN["AsofJoin"]}
FEW = {name: JOINS[name] for name in ("full", "semi", "asof")}
#: (from bucket, to bucket, where it goes): coaches 2, 0 and 1 are in 13, 33 and 55
RANGES = ((0, 40, "west"), (20, 64, "east"), (0, 50, "cloud"), (30, 64, "west"))
CHEAP = ("delta", "falcon", "hot-backup")


def stateful(fleet: Fleet, name: str) -> int:
    """The stateful operator of a query that is nearest to its results."""
    operators = fleet.deployment.queries[fleet.known(name)].shape.plan.operators
    return max(i for i, node in enumerate(operators) if node.stateful)


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
    names = list(world.queries)
    rounds(world, names, strategy, [Step((0, 1)), Step((1, 2, 0))])
    assert wrong(world) == []
    done = [one.query for one, outcome in world.fleet.plane.keys.ended if outcome == "done"]
    assert all(done.count(world.fleet.known(name)) >= 3 for name in names)
    assert not world.fleet.plane.keys.active
    for runner in world.fleet.pool.runners.values():
        assert not runner.memory.rooms


@pytest.mark.full
def test_large_batches_and_instances_that_move_as_a_whole_meanwhile(open_fleet: Callable[..., Fleet]) -> None:
    """Sets of keys are then conditions of Spark's plan; a part of the keys goes on before it has arrived."""
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), FEW)
    moves = [Move(name, site) for name, site in (("full", "east"), ("asof", "west"))]
    rounds(world, list(FEW), AUTO, [Step((0, 1)), *moves, Crash("staged"), Step((1, 2)), Attach(0, "east")])
    assert wrong(world) == []


@pytest.mark.full
@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("moment", ["staged", "committed"])
def test_a_crash_while_keys_of_joins_migrate(open_fleet: Callable[..., Fleet], name: str, moment: str) -> None:
    world = World(open_fleet, {name: JOINS[name]})
    rounds(world, [name], AUTO, [Step((0, 1)), Crash(moment), Step((2,)), Move(name, "east"), Step((0, 2))])
    assert wrong(world) == []


@pytest.mark.full
@pytest.mark.parametrize("strategy", KEY_STRATEGIES)
@pytest.mark.parametrize("name", JOINS)
def test_keys_of_joins_migrate_while_the_fleet_runs(open_fleet: Callable[..., Fleet], name: str, strategy: str) -> None:
    """Rows come all the time; keys go round, some of them before they have arrived."""
    world = World(open_fleet, {name: JOINS[name]})
    operator = stateful(world.fleet, name)
    world.fleet.control.may_begin = lambda place: True  # none waits for others
    world.fleet.start()
    for number, second in enumerate(range(0, 54, 3)):
        world.play([Push(train, second, 3) for train in range(4)])
        low, high, to = RANGES[number % 4]
        world.fleet.migrate(name, keys=("buckets", low, high), to=to, strategy=strategy, operator=operator)
        time.sleep(0.2)
    assert wrong(world) == []
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) >= 6
