"""The oracle on written-down stories: what happened to the trains must not show in the results."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from godwit.runtime.fleet import Fleet
from tests.runtime.world import QUERIES, Action, Attach, Crash, Detach, Move, Push, Step, World

QUIET: list[Action] = [Push(train, second, 6) for second in range(0, 30, 6) for train in range(4)]


def verdicts(world: World, script: list[Action]) -> list[str]:
    world.play(script)
    return [str(v) for v in world.finish() if not v.equal]


@pytest.mark.parametrize("name", list(QUERIES))
def test_a_query_answers_what_the_batch_answers(open_fleet: Callable[..., Fleet], name: str) -> None:
    """Rows in disorder, in several micro-batches, a train that changes region and one that is away for a while."""
    script = [*QUIET[:8], Step((0, 1, 2)), Attach(0, "east"), Detach(1), *QUIET[8:12], Step((2, 0, 1))]
    script += [Attach(1, "east"), *QUIET[12:]]
    assert verdicts(World(open_fleet, {name: QUERIES[name]}), script) == []


@pytest.mark.parametrize("name", ["tumbling", "session", "join", "nested"])
def test_state_follows_its_instance_to_another_region(open_fleet: Callable[..., Fleet], name: str) -> None:
    """The instance moves while windows are open, and moves again before its state has arrived."""
    script = [
        *QUIET[:6], Step((0, 1, 2)), Move(name, "west"), *QUIET[6:10], Step((1,)),
        Move(name, "east"), *QUIET[10:14], Step((2, 0)), Move(name, "west"), *QUIET[14:18], Step((0, 1, 2)),
        Move(name, "cloud"), *QUIET[18:],
    ]  # fmt: skip
    assert verdicts(World(open_fleet, {name: QUERIES[name]}), script) == []


@pytest.mark.parametrize("moment", ["polled", "staged", "committed", "cleaned"])
def test_a_crash_at_any_step_of_a_commit_loses_and_repeats_nothing(
    open_fleet: Callable[..., Fleet], moment: str
) -> None:
    queries = {name: QUERIES[name] for name in ("tumbling", "join")}
    script = [*QUIET[:8], Crash(moment), Move("join", "east"), *QUIET[8:14], Crash(moment), *QUIET[14:]]
    assert verdicts(World(open_fleet, queries), script) == []
