"""Outer, semi and anti joins within a band: who has no partner is told once, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from tests.region.test_running import ROWS, Ticking, different, restless
from tests.region.world import Crash, Move, Push, Step, World, sized
from tests.sampled import sampled

BAND = "a.coach = b.coach AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 2 SECONDS"
#: b only before a, so that a row's partners are all there before it is
EARLIER = "a.coach = b.coach AND b.ts BETWEEN a.ts - INTERVAL 3 SECONDS AND a.ts - INTERVAL 1 SECOND"
S41, S42 = ("(SELECT * FROM passengers WHERE line = 'S41')", "(SELECT * FROM passengers WHERE line = 'S42')")
FROM = f"FROM {S41} a {{}} JOIN {S42} b ON"

OUTER = {
    "left": f"""SELECT a.train, b.train AS other, a.ts, b.ts AS met, b.load {FROM.format("LEFT")} {BAND}
                AND a.boarded > b.alighted""",
    "right": f"""SELECT a.train, a.boarded, b.train AS other, b.ts {FROM.format("RIGHT")} {EARLIER}
                 AND b.boarded > 2 AND a.boarded > 4""",
    "full": f"""SELECT a.train, b.train AS other, a.ts, b.ts AS met, a.load {FROM.format("FULL OUTER")} {BAND}
                AND a.boarded = b.boarded""",
    "semi": f"SELECT a.train, a.boarded, a.ts {FROM.format('LEFT SEMI')} {BAND} AND a.boarded > b.alighted + 3",
    "anti": f"""SELECT a.train, a.boarded, a.ts {FROM.format("LEFT ANTI")} {BAND} AND a.boarded > b.alighted - 3
                WHERE a.alighted > 1""",
    "anti_earlier": f"SELECT a.train, a.ts {FROM.format('LEFT ANTI')} {EARLIER} AND b.boarded > 3",
    "semi_earlier": f"SELECT a.train, a.ts {FROM.format('LEFT SEMI')} {EARLIER} AND b.boarded > 3",
    "absent": f"""SELECT a.coach, count(*) AS alone, window.end AS until {FROM.format("LEFT")} {BAND}
                  AND a.boarded = b.boarded WHERE b.train IS NULL GROUP BY a.coach, window(a.ts, '5 seconds')""",
    "three": f"""SELECT a.train, b.train AS other, c.train AS third, c.ts {FROM.format("")} {BAND}
                 LEFT JOIN passengers c ON c.train = b.train AND c.boarded = a.boarded
                 AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 2 SECONDS WHERE a.boarded > 5""",
}


@pytest.mark.parametrize("name", list(OUTER))
def test_rows_without_a_partner_are_told_as_the_batch_tells_them(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = World(open_fleet, {name: OUTER[name]})
    assert different(world, restless([name])) == []
    assert world.fleet.query(name).results().count() > 0


@pytest.mark.parametrize("name", ["semi", "full"])
def test_rows_that_are_equal_are_told_each(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = Ticking(open_fleet, {name: OUTER[name]})
    script = [*ROWS[:8], Step((0, 1, 2)), Move(name, "west"), *ROWS[8:14], Step((0, 1, 2)), *ROWS[14:]]
    assert different(world, script) == []


@pytest.mark.parametrize("strategy", sampled(["adhoc-query", "recreate-average"], "recreate-average"))
def test_outer_joins_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    names = ["full", "semi", "anti_earlier"]
    world = World(partial(open_fleet, state=strategy), {name: OUTER[name] for name in names})
    assert different(world, restless(names)) == []


def test_large_batches_of_outer_joins(open_fleet: Callable[..., Fleet]) -> None:
    names = ["full", "semi"]
    world = World(sized(open_fleet, SizePolicy(small_rows=3, handed_rows=2)), {name: OUTER[name] for name in names})
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), Move("full", "west"), Move("semi", "east"), *ROWS[8:12]]
    assert different(world, [*script, Step((0, 1, 2)), Crash("staged"), *ROWS[12:]]) == []


def test_what_outer_joins_keep_stays_few(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {name: OUTER[name] for name in ("full", "semi", "anti")})
    for second in range(0, 120, 6):
        world.play([Push(train, float(second), 3) for train in range(4)])
        world.fleet.process_available()
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) < 160
    assert [str(v) for v in world.finish() if not v.equal] == []
