"""Keys of rankings and of window functions that look ahead migrate while rows come: each answer is told once, by one
owner, and of the best rows so far the last change that was told is the right one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from godwit.migration.phases import AUTO, KEY_STRATEGIES
from godwit.model.ranking import Ranked, TopRows
from godwit.model.running import OverAhead
from tests.region.test_outer_keys import CHEAP, RANGES, rounds, stateful, wrong
from tests.region.test_ranking import FINAL, NOW
from tests.region.test_running import OVERS
from tests.region.world import Attach, Crash, Move, Push, Step, World, sized

#: answered when the watermark has passed the rows, or rows after them
PASSED = {"best_trains": FINAL["best_trains"], "next_rows": OVERS["next_rows"], "next_only": OVERS["next_only"]}
#: put out as changes, as rows come
CHANGED = {"best": NOW["best"], "latest": NOW["latest"]}
ALL = {**PASSED, **CHANGED, "hottest": FINAL["hottest"]}
STRATEGIES = [name if name in CHEAP else pytest.param(name, marks=pytest.mark.full) for name in KEY_STRATEGIES]


def test_the_operators_whose_keys_migrate_here(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, ALL)
    kinds = {}
    for name in ALL:
        node = world.fleet.deployment.queries[world.fleet.known(name)].shape.plan.operators[stateful(world.fleet, name)]
        kinds[name] = type(node)
    ranked, ahead, best = dict.fromkeys(("best_trains", "hottest"), Ranked), OverAhead, TopRows
    assert kinds == {**ranked, "next_rows": ahead, "next_only": ahead, "best": best, "latest": best}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ranks_and_next_rows_are_told_once_by_every_strategy(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    queries = PASSED if strategy == "delta" else {**PASSED, **CHANGED}  # (the best so far cannot be merged later)
    world = World(open_fleet, queries)
    rounds(world, list(queries), strategy, [Step((0, 1)), Step((1, 2, 0))])
    assert wrong(world) == []
    done = [one.query for one, outcome in world.fleet.plane.keys.ended if outcome == "done"]
    assert all(done.count(world.fleet.known(name)) >= 3 for name in queries)
    assert not world.fleet.plane.keys.active
    for runner in world.fleet.pool.runners.values():
        assert not runner.memory.rooms


@pytest.mark.full
@pytest.mark.parametrize("strategy", [AUTO, "hot-backup"])
def test_large_batches_and_instances_that_move_as_a_whole_meanwhile(
    open_fleet: Callable[..., Fleet], strategy: str
) -> None:
    """Sets of keys are then conditions of Spark's plan; a part of the keys goes on before it has arrived."""
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), ALL)
    moves = [Move(name, site) for name, site in (("best_trains", "east"), ("next_rows", "west"), ("best", "east"))]
    rounds(world, list(ALL), strategy, [Step((0, 1)), *moves, Crash("staged"), Step((1, 2)), Attach(0, "east")])
    assert wrong(world) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("moment", ["polled", "staged", "committed", "published"])
@pytest.mark.parametrize("strategy", [AUTO, "partial-pause"])
def test_a_crash_while_keys_of_rankings_migrate(
    open_fleet: Callable[..., Fleet], name: str, moment: str, strategy: str
) -> None:
    world = World(open_fleet, {name: ALL[name]})
    rounds(world, [name], strategy, [Step((0, 1)), Crash(moment), Step((2,)), Move(name, "east"), Step((0, 2))])
    assert wrong(world) == []


@pytest.mark.parametrize(
    ("names", "strategy"),
    [
        (tuple(ALL), AUTO),
        *(pytest.param((n,), s, marks=pytest.mark.full) for n in ALL for s in KEY_STRATEGIES),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_keys_of_rankings_migrate_every_200_ms_while_the_fleet_runs(
    open_fleet: Callable[..., Fleet], names: tuple[str, ...], strategy: str
) -> None:
    """Rows come all the time; keys go round, some of them before they have arrived."""
    if strategy == "delta" and names[0] in CHANGED:
        pytest.skip("the best so far cannot be merged later")
    world = World(open_fleet, {name: ALL[name] for name in names})
    world.fleet.control.may_begin = lambda place: True  # none waits for others
    world.fleet.start()
    for number, second in enumerate(range(0, 54, 3)):
        world.play([Push(train, second, 3) for train in range(4)])
        (low, high, to), name = RANGES[number // len(names) % 4], names[number % len(names)]
        operator = stateful(world.fleet, name)
        world.fleet.migrate(name, keys=("buckets", low, high), to=to, strategy=strategy, operator=operator)
        time.sleep(0.2)
    assert wrong(world) == []
    assert sum(outcome == "done" for _, outcome in world.fleet.plane.keys.ended) >= 6
