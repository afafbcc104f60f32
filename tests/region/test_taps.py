"""Equal sub-plans are executed once, and every reader is answered from its own beginning: the oracle decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from godwit.api.fleet import Fleet
from godwit.ids import QueryId
from godwit.model.plan import QUERY
from tests.region.world import QUERIES, Action, Attach, Crash, Move, Push, Step, Submit, Withdraw, World

PLAN: list[Action] = [Push(train, second, 6) for second in range(0, 36, 3) for train in range(4)]
STRICTER = QUERIES["hopping"].replace("> 1", "> 3")
OVER_JOIN = """SELECT a.train, count(*) AS n, window.end AS until FROM passengers a JOIN passengers b
               ON a.coach = b.coach AND a.ts BETWEEN b.ts - INTERVAL 1 SECOND AND b.ts + INTERVAL 2 SECONDS
               WHERE a.line = 'S41' AND b.line = 'S42' GROUP BY a.train, window(a.ts, '7 seconds')"""
#: name -> (the first query, one that has a sub-plan in common with it)
PAIRS = {
    "window": (QUERIES["tumbling"], QUERIES["tumbling"]),
    "hopping, another HAVING": (QUERIES["hopping"], STRICTER),
    "join": (QUERIES["join"], QUERIES["join"]),
    "window over a join": (OVER_JOIN, OVER_JOIN),
    "window over a window": (QUERIES["nested"], QUERIES["nested"]),
    "window over a union": (QUERIES["union"], QUERIES["union"]),
    "filter": (QUERIES["filter"], QUERIES["filter"]),
    "session": (QUERIES["session"], QUERIES["session"]),
}


def wrong(world: World) -> list[str]:
    return [str(v) for v in world.finish() if not v.equal]


@pytest.mark.parametrize("name", PAIRS)
def test_readers_that_come_in_the_middle_are_answered_from_their_own_beginning(
    open_fleet: Callable[..., Fleet], name: str
) -> None:
    """Two come after the first, each while windows are open; the operators move, the first leaves, a crash."""
    first, later = PAIRS[name]
    world = World(open_fleet, {"first": first})
    script = [*PLAN[:6], Step((0, 1, 2)), Submit("second", later), *PLAN[6:14], Step((0, 1)), Move("first", "west")]
    script += [*PLAN[14:18], Step((2, 0, 1)), Submit("third", later), *PLAN[18:26], Attach(0, "east"), Step((0, 1, 2))]
    world.play(script)
    verdicts = [world.fleet.query(q).verdict() for q in world.fleet.queries] if name == "filter" else []
    assert all(v.expected for v in verdicts)
    world.play([Withdraw("first"), *PLAN[26:32], Crash("staged"), *PLAN[32:40], Withdraw("second"), *PLAN[40:]])
    assert wrong(world) == []
    assert world.fleet.queries == ["third"]
    assert world.fleet.query("third").results().count() > 0
