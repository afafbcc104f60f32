"""What every stateful operator says of state that comes late is what it does: it takes rows in before, or they wait.

An instance of each kind moves; rows reach its new region before its state does. That results are the batch's whatever
happens is shown for each operator at length elsewhere (`test_oracle.py`, `test_running.py`, `test_outer_joins.py`, ..).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from godwit.api.fleet import Fleet
from godwit.ids import QueryId
from godwit.model.plan import KINDS, Operator
from tests.region.world import QUERIES, Action, Push, World, rooms_of

#: a query for every kind of stateful node; a probing join comes of a change of plan (tests/api/test_replan.py)
KNOWN = {
    "Aggregate": QUERIES["hopping"],
    "Join": QUERIES["join"],
    "OuterJoin": """SELECT a.train, b.train AS other, a.ts FROM passengers a LEFT JOIN passengers b ON a.coach = b.coach
                    AND b.line = 'S42' AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND""",
    "AsofJoin": """SELECT /*+ keep('5 seconds') */ a.train, b.train AS other, a.ts, b.ts AS met FROM passengers a
                   ASOF JOIN passengers b MATCH_CONDITION (a.ts >= b.ts) ON a.coach = b.coach""",
    "RunningAggregate": """SELECT /*+ keep('forever') */ coach, count(*) AS n, sum(boarded) AS people
                           FROM passengers GROUP BY coach""",
    "Over": "SELECT train, coach, lag(boarded) OVER (PARTITION BY coach ORDER BY ts) AS before, ts FROM passengers",
    "OverAhead": "SELECT train, coach, lead(boarded) OVER (PARTITION BY coach ORDER BY ts) AS next, ts FROM passengers",
    "Ranked": """SELECT line, n, until, rank() OVER (PARTITION BY until ORDER BY n DESC) AS place FROM (
                   SELECT line, count(*) AS n, window.end AS until FROM passengers
                   GROUP BY line, window(ts, '5 seconds'))""",
    "TopRows": """SELECT /*+ keep('forever') */ * FROM (
                    SELECT train, load, row_number() OVER (PARTITION BY train ORDER BY load DESC) AS place
                    FROM passengers) WHERE place <= 2""",
}
ELSEWHERE = {"ProbeJoin"}


def _stateful() -> dict[str, type[Operator]]:
    return {name: kind for name, kind in KINDS.items() if kind.stateful and kind.__module__.startswith("godwit.model")}


def test_every_stateful_kind_says_what_late_state_does_to_it() -> None:
    kinds = _stateful()
    assert set(kinds) == set(KNOWN) | ELSEWHERE
    for kind in kinds.values():
        assert any(
            "late_state" in base.__dict__ for base in kind.__mro__ if base is not Operator and base is not object
        )


@pytest.mark.full
def test_rows_wait_for_late_state_where_the_operator_says_so(open_fleet: Callable[..., Fleet]) -> None:
    """After the move only the new region works: rows are there, and the state is not. All instances move in one epoch:
    regions work while they acknowledge a later one, and the state of what moved before would come."""
    world, moves = World(open_fleet, KNOWN), dict[str, str]()
    for name in KNOWN:
        plan = world.fleet.deployment.queries[QueryId(name)].shape.plan
        assert name in {type(operator).__name__ for operator in plan.operators}, "each query has its operator"
        moves |= {f"{name}/{i}": "west" for i in range(len(plan.operators)) if not plan.is_local(i)}
    rows: list[Action] = [Push(train, second, 3) for second in range(0, 18, 6) for train in range(4)]
    world.play(rows[:6])
    world.fleet.process_available()
    world.fleet.move(moves)
    world.play(rows[6:])
    for (region, _), runner in [*world.fleet.pool.runners.items()] * 2:
        if region == "edge-west":
            runner.step()
    told = [record for runner in world.fleet.pool.runners.values() for _, record in runner.commits.after(0)]
    waited = {room[1] for record in told for room in rooms_of(record) if room[0] == "waiting"}
    assert waited == {name for name in KNOWN if KINDS[name].late_state != "merge"}
    assert [str(verdict) for verdict in world.finish() if not verdict.equal] == []
