"""However state gets to its instance's new home, the results are the oracle's: the same stories for every strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.migration.base import STRATEGIES
from godwit.region.link_emulator import Links
from tests.region.world import QUERIES, Action, Crash, Move, Push, Step, World, rooms_of

STATEFUL = ("tumbling", "session", "join", "nested")
ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]


def moved(site: str) -> list[Action]:
    return [Move(name, site) for name in STATEFUL]


#: windows, sessions and joins are open when their instances move, and move again before their state has come
RESTLESS: list[Action] = [
    *ROWS[:6], Step((0, 1, 2)), *moved("west"), *ROWS[6:10], Step((1,)),
    *moved("east"), *ROWS[10:14], Step((2, 0)), *moved("west"), *ROWS[14:18], Step((0, 1, 2)),
    *moved("cloud"), *ROWS[18:],
]  # fmt: skip


def commits(fleet: Fleet) -> Iterator[dict[str, Any]]:
    for runner in fleet.pool.runners.values():
        yield from (record for _, record in runner.commits.after(0))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_follows_its_instances(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = World(partial(open_fleet, state=strategy), {name: QUERIES[name] for name in STATEFUL})
    world.play(RESTLESS)
    assert [str(v) for v in world.finish() if not v.equal] == []
    told = list(commits(world.fleet))
    replayed = [h for record in told for h in record["handovers"] if h["replay"] is not None]
    waited = [room for record in told for room in rooms_of(record) if room[0] == "waiting"]
    assert bool(replayed) == strategy.startswith("recreate")
    assert bool(waited) == (strategy != "delta")
    assert not any(h["parts"] for h in replayed)
    assert all(not runner.memory.underway for runner in world.fleet.pool.runners.values())


@pytest.mark.parametrize("strategy", ["delta", "transfer", "recreate-best"])
def test_a_crash_while_state_is_on_its_way(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    """Over a slow link, so that it is on its way for some micro-batches; then the process dies."""
    links = Links(mbit=0.5)
    world = World(
        partial(open_fleet, state=strategy, links=links), {name: QUERIES[name] for name in ("tumbling", "join")}
    )
    script = [*ROWS[:6], Step((0, 1, 2)), Move("join", "west"), Move("tumbling", "west"), *ROWS[6:10]]
    script += [Step((0, 1, 2, 3, 4, 5)), Crash("staged"), *ROWS[10:14], Crash("committed"), *ROWS[14:]]
    world.play(script)
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_an_instance_whose_lower_operators_are_with_it_moves_away(open_fleet: Callable[..., Fleet]) -> None:
    """All operators are at the cloud, which reads raw rows; some were sent to it before the move, and read after."""
    world = World(partial(open_fleet, rule="top-down"), {"tumbling": QUERIES["tumbling"]})
    script = [*ROWS[:6], Step((0, 1, 2, 3, 4, 5)), *ROWS[6:10], Step((0, 1, 0, 1)), Move("tumbling", "west")]
    world.play([*script, Step((0, 1, 2, 3, 4, 5)), *ROWS[10:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
