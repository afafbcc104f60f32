"""Reference tables and joins as of a time: which version a row sees is a matter of event time, whatever happens."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial

import pytest

from godwit.api.fleet import Fleet
from godwit.api.tables import TableHandle
from godwit.engine.size_policy import SizePolicy
from godwit.errors import ConfigError, SourceError
from tests.region.test_running import ROWS, Ticking, different, restless
from tests.region.world import START, Crash, Move, Push, Step, Submit, World, sized
from tests.sampled import sampled

TABLE = "id string, model string, seats int"
TABLES = {
    "inner": """SELECT p.train, p.boarded, v.model, v.seats, p.ts FROM passengers p JOIN vehicles v
                ON p.train = v.id AND v.seats > p.boarded""",
    "left": """SELECT p.train, v.model, v.since, p.ts FROM passengers p LEFT JOIN vehicles v ON v.id = p.train
               WHERE p.coach > 0""",
    "counted": """SELECT v.model, count(*) AS n, window.end AS until FROM passengers p JOIN vehicles v ON p.train = v.id
                  GROUP BY v.model, window(p.ts, '5 seconds')""",
    "asof": """SELECT p.train, v.seats, p.ts FROM passengers p ASOF LEFT JOIN vehicles v
               MATCH_CONDITION (p.ts >= v.since) ON p.train = v.id""",
}
ASOF = {
    "newest": """SELECT /*+ keep('forever') */ a.train, b.train AS other, b.load, a.ts, b.ts AS met
                 FROM (SELECT * FROM passengers WHERE line = 'S41') a
                 ASOF JOIN (SELECT * FROM passengers WHERE line = 'S42') b MATCH_CONDITION (a.ts >= b.ts)
                 ON a.coach = b.coach""",
    "recent": """SELECT /*+ keep('700 milliseconds') */ a.train, a.boarded, b.train AS other, a.ts
                 FROM passengers a ASOF LEFT JOIN passengers b MATCH_CONDITION (a.ts > b.ts)
                 ON a.coach + 1 = b.coach * 1 AND a.boarded > b.alighted""",
}


class TableWorld(World):
    def declare(self, fleet: Fleet) -> None:
        table = fleet.table("vehicles", TABLE, key="id", site="west")
        table.upsert([{"id": f"t{n}", "model": f"m{n % 2}", "seats": 4 + n} for n in range(3)])

    @property
    def table(self) -> TableHandle:
        return self.fleet.table("vehicles", TABLE, key="id")

    def change(self, number: int) -> None:
        """Somebody changes the table while the trains go on."""
        which = number // 3
        self.table.upsert([{"id": f"t{which % 4}", "model": f"n{number}", "seats": number % 9}])
        if which % 3 == 0:
            self.table.delete([f"t{(which + 1) % 4}"])

    def play(self, script):  # type: ignore[no-untyped-def,override]
        for number, action in enumerate(script):
            if number % 4 == 3 and isinstance(action, Push):
                self.change(number)
            super().play([action])


#: many rows come in, and those of the other side are few
LOOKED_UP = SizePolicy(small_rows=2_000, handed_rows=2)


@pytest.mark.parametrize("name", list(TABLES))
def test_rows_see_the_version_of_their_time(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = TableWorld(open_fleet, {name: TABLES[name]})
    assert different(world, restless([name])) == []
    assert world.fleet.query(name).results().count() > 0
    assert world.fleet.query(name).late().count() == 0


@pytest.mark.parametrize("name", list(ASOF))
def test_the_newest_row_of_another_stream(open_fleet: Callable[..., Fleet], name: str) -> None:
    world = World(open_fleet, {name: ASOF[name]})
    assert different(world, restless([name])) == []
    assert world.fleet.query(name).results().count() > 0


@pytest.mark.parametrize("sizes", [SizePolicy(), LOOKED_UP], ids=["few", "looked up"])
def test_of_rows_of_one_time_one_is_the_newest(open_fleet: Callable[..., Fleet], sizes: SizePolicy) -> None:
    world = Ticking(sized(open_fleet, sizes), ASOF)
    script = [*ROWS[:8], Step((0, 1, 2)), Move("recent", "west"), *ROWS[8:14], Step((0, 1, 2)), *ROWS[14:]]
    assert different(world, script) == []


@pytest.mark.parametrize("strategy", sampled(["adhoc-query", "recreate-average"], "adhoc-query"))
def test_under_other_strategies(open_fleet: Callable[..., Fleet], strategy: str) -> None:
    world = TableWorld(partial(open_fleet, state=strategy), {"recent": ASOF["recent"], "left": TABLES["left"]})
    assert different(world, restless(["recent"])) == []


@pytest.mark.parametrize("sizes", [SizePolicy(small_rows=3, handed_rows=2), LOOKED_UP], ids=["sorted", "looked up"])
def test_large_batches(open_fleet: Callable[..., Fleet], sizes: SizePolicy) -> None:
    queries = {"newest": ASOF["newest"], "inner": TABLES["inner"], "left": TABLES["left"]}
    world = TableWorld(sized(open_fleet, sizes), queries)
    script = [*ROWS[:8], Step((0, 1, 2, 0, 1, 2)), Move("inner", "east"), Move("newest", "west"), *ROWS[8:12]]
    assert different(world, [*script, Step((0, 1, 2)), Crash("staged"), *ROWS[12:]]) == []


def test_a_query_that_begins_later_knows_the_table(open_fleet: Callable[..., Fleet]) -> None:
    world = TableWorld(open_fleet, {"inner": TABLES["inner"]})
    script = [*ROWS[:8], Step((0, 1, 2)), Crash("staged"), Submit("later", TABLES["left"]), *ROWS[8:]]
    assert different(world, script) == []
    assert world.fleet.query("later").results().where("model IS NOT NULL").count() > 0


def test_what_is_kept_of_a_table_is_its_newest_versions(open_fleet: Callable[..., Fleet]) -> None:
    world = TableWorld(open_fleet, {"left": TABLES["left"]}, trains=2)
    for second in range(0, 120, 3):
        world.change(second)
        super(TableWorld, world).play([Push(0, float(second), 1), Push(1, float(second), 1)])
        world.fleet.process_available()
    state = [s for r in world.fleet.pool.runners.values() for s in r.memory.states.values()]
    assert 0 < sum(s.rows for s in state) < 60
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_changes_and_contents(open_fleet: Callable[..., Fleet]) -> None:
    world = TableWorld(open_fleet, {"left": TABLES["left"]})
    table = world.table
    assert [row["id"] for row in table.rows()] == ["t0", "t1", "t2"]
    world.play([Push(0, 0.0, 3)])
    assert table.replace([{"id": "t0", "model": "m0", "seats": 4}, {"id": "t9", "model": "x", "seats": 1}]) == 3
    assert sorted(row["id"] for row in table.rows()) == ["t0", "t9"]
    with pytest.raises(SourceError, match="comes too late"):
        table.upsert([{"id": "t0", "model": "m", "seats": 1}], since=START)
    table.upsert([{"id": "t0", "model": "m", "seats": 1}], since=START + dt.timedelta(days=1))
    with pytest.raises(SourceError, match="do not fit"):
        table.upsert([{"id": "t0", "model": "m", "seats": "many"}])
    with pytest.raises(SourceError, match="is its key"):
        table.upsert([{"model": "m", "seats": 1}])
    with pytest.raises(SourceError, match="is a reference table"):
        world.fleet.push("vehicles", [{"id": "t0", "since": START}])
    with pytest.raises(ConfigError, match="none of its columns"):
        world.fleet.table("other", TABLE, key="name")
    assert [str(v) for v in world.finish() if not v.equal] == []
