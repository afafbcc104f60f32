"""The joins once more, by another engine that knows nothing of ours: DuckDB over the same rows, in its own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from godwit.api.fleet import Fleet
from tests.region.test_outer_joins import OUTER
from tests.region.test_running import ROWS
from tests.region.test_tables import ASOF, TABLES, TableWorld
from tests.region.world import Attach, Move, Step

duckdb = pytest.importorskip("duckdb")

BAND = "a.coach = b.coach AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts + INTERVAL 2 SECONDS"
SIDES = "WITH a AS (SELECT * FROM passengers WHERE line = 'S41'), b AS (SELECT * FROM passengers WHERE line = 'S42')"
#: query -> the same for DuckDB
SAME = {
    "left": f"""{SIDES} SELECT a.train, b.train, a.ts, b.ts, b.load FROM a LEFT JOIN b
                ON {BAND} AND a.boarded > b.alighted""",
    "full": f"""{SIDES} SELECT a.train, b.train, a.ts, b.ts, a.load FROM a FULL JOIN b
                ON {BAND} AND a.boarded = b.boarded""",
    "semi": f"""{SIDES} SELECT a.train, a.boarded, a.ts FROM a
                WHERE EXISTS (SELECT 1 FROM b WHERE {BAND} AND a.boarded > b.alighted + 3)""",
    "anti": f"""{SIDES} SELECT a.train, a.boarded, a.ts FROM a
                WHERE a.alighted > 1 AND NOT EXISTS (SELECT 1 FROM b WHERE {BAND} AND a.boarded > b.alighted - 3)""",
    "newest": f"""{SIDES} SELECT a.train, b.train, b.load, a.ts, b.ts FROM a ASOF JOIN b
                  ON a.coach = b.coach AND a.ts >= b.ts""",
    "table": """SELECT p.train, v.seats, p.ts FROM passengers p ASOF LEFT JOIN versions v
                ON p.train = v.id AND p.ts >= v.since""",
}


class Recorded(TableWorld):
    """Keeps what was sent, and which versions the table had."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        super().__init__(*given, **named)

    def _rows(self, train: int, second: float, rows: int) -> list[dict[str, Any]]:
        made = super()._rows(train, second, rows)
        self.sent += [{"train": f"t{train}", **row} for row in made]
        return made

    def versions(self) -> Any:
        """(id, seats, since); of a row that is gone the seats are NULL."""
        schema = self.fleet.gateway.schema("vehicles")  # type: ignore[arg-type]
        changes = self.fleet.gateway.book.versions(schema)
        assert changes.num_rows
        newest = "row_number() OVER (PARTITION BY id, since ORDER BY __sequence DESC) = 1"
        seats = "CASE WHEN __gone THEN NULL ELSE seats END AS seats"
        return duckdb.sql(f"SELECT id, {seats}, since FROM changes QUALIFY {newest}").to_arrow_table()


def test_duckdb_gives_the_same(open_fleet: Callable[..., Fleet]) -> None:
    queries = {name: {**OUTER, **ASOF}[name] for name in SAME if name != "table"}
    world = Recorded(open_fleet, {**queries, "table": TABLES["asof"]})
    world.play([*ROWS[:8], Step((0, 1, 2)), *(Move(name, "west") for name in SAME), Attach(0, "east"), *ROWS[8:14]])
    world.play([Step((1, 0)), *(Move(name, "east") for name in SAME), *ROWS[14:]])
    assert [str(v) for v in world.finish() if not v.equal] == []
    passengers, versions = pa.Table.from_pylist(world.sent), world.versions()
    assert passengers.num_rows
    assert versions
    for name, sql in SAME.items():
        theirs = duckdb.sql(sql).fetchall()
        ours = [tuple(row) for row in world.fleet.query(name).results().collect()]
        assert _plain(ours) == _plain(theirs), name
        assert ours


def _plain(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(_text(value) for value in row) for row in rows)


def _text(value: Any) -> str:
    return f"{value.timestamp():.6f}" if hasattr(value, "timestamp") else str(value)
