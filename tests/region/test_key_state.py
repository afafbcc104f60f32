"""The paper's own check: the state after migrations is what it would have been without them. And links that are cut."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.model.plan import GENERATION, QUERY
from godwit.region.link_delays import LinkDelays
from godwit.region.link_emulator import Links
from godwit.region.state import State
from tests.region.world import Action, Push, Step, World

ROWS: list[Action] = [Push(train, second, 6) for second in range(0, 36, 6) for train in range(4)]
ALL = Step((0, 1, 2))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEPT = {
    "totals": "SELECT /*+ keep('forever') */ train, count(*) AS n, sum(boarded) AS s FROM passengers GROUP BY train",
    "hour": """SELECT train, count(*) AS n, sum(boarded) AS s, window.end AS until FROM passengers
               GROUP BY train, window(ts, '1 hour')""",
    "over": """SELECT train, ts, sum(boarded) OVER (PARTITION BY train ORDER BY ts ROWS 3 PRECEDING) AS s
               FROM passengers""",
}
#: of each: the columns that rows of state are put together by; the others are added up
BY = {"totals": ["train"], "hour": ["train", "window_start"]}


def state(fleet: Fleet, name: str) -> Any:
    """What all regions hold of a query's keys, however it lies in segments."""
    query = fleet.known(name)
    shape = fleet.deployment.queries[query].shape
    found: list[list[dict[str, Any]]] = [[], []]
    for runner in fleet.pool.runners.values():
        for key, kept in runner.memory.states.items():
            rows = State(list(kept.live)).read(fleet.spark) if key.signature in shape.signatures else None
            if rows is not None:
                told = rows.toArrow().drop_columns([QUERY, GENERATION]).to_pylist()
                answered = runner.memory.let_go[shape.signatures.index(key.signature)][query]
                found[key.side] += [row for row in told if name != "over" or key.side or at(row) >= answered]
    return counted(*found) if name == "over" else added([*found[0], *found[1]], BY[name])


def at(row: dict[str, Any]) -> int:
    return (row["passengers__ts"] - EPOCH) // timedelta(microseconds=1)


def counted(waiting: list[dict[str, Any]], kept: list[dict[str, Any]]) -> Counter[str]:
    """Rows that wait, and the last three of each train. Segments hold more, until they die or are compacted."""
    last = [sorted((r for r in kept if r["passengers__train"] == f"t{k}"), key=at)[-3:] for k in range(4)]
    assert [len(rows) for rows in last] == [3] * 4
    sides = enumerate((waiting, [row for rows in last for row in rows]))
    return Counter(f"{side} {sorted(row.items())}" for side, rows in sides for row in rows)


def added(found: list[dict[str, Any]], by: list[str]) -> dict[str, Counter[str]]:
    totals: dict[str, Counter[str]] = {}
    for row in found:
        key = "/".join(str(value) for column, value in row.items() if column.lstrip("_").removesuffix("__0") in by)
        totals.setdefault(key, Counter()).update({c: v for c, v in row.items() if isinstance(v, int | float)})
    return totals


@pytest.mark.parametrize("name", KEPT)
def test_state_is_the_same_with_and_without_migrations(spark: SparkSession, tmp_path: Path, name: str) -> None:
    ends = []
    for number, moved in enumerate((False, True)):
        opened: list[Fleet] = []

        def opening(folder: Path = tmp_path / f"f{number}", into: list[Fleet] = opened, **options: Any) -> Fleet:
            into.append(Fleet(folder, spark, **options))
            return into[-1]

        world = World(opening, {name: KEPT[name]})
        try:
            world.play([*ROWS[:8], ALL])
            if moved:
                world.fleet.migrate(name, keys=["t0", "t1"], to="west")
            world.play([*ROWS[8:14], ALL, ALL])
            if moved:
                world.fleet.migrate(name, keys=("buckets", 0, 40), to="east")
            world.play(ROWS[14:])
            # (Micro-batches alone do not end a migration: the control plane must have its turn between them.)
            world.fleet.process_available()
            assert not world.fleet.plane.keys.busy
            assert bool(world.fleet.plane.keys.done) == moved
            ends.append(state(world.fleet, name))
            assert [str(v) for v in world.finish() if not v.equal] == []
        finally:
            for fleet in opened:
                fleet.stop()
    assert ends[0], "there is state to compare"
    assert ends[0] == ends[1]


@pytest.mark.parametrize("strategy", ["falcon", "partial-pause", "on-demand", "hot-backup"])
def test_a_link_that_is_cut_in_the_middle_and_comes_back(
    open_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Markers, rows and state between two regions are not seen for a while; then they are, in order."""
    world = World(lambda **options: open_fleet(**options, links=Links(round_trip_ms=20)), {"totals": KEPT["totals"]})
    sees, cut = LinkDelays.sees, {"on": False}

    def seen(self: LinkDelays, source: str, target: str, log: str, number: int) -> bool:
        return not (cut["on"] and {source, target} == {"west", "cloud"}) and sees(self, source, target, log, number)

    monkeypatch.setattr(LinkDelays, "sees", seen)
    world.fleet.start()
    for number, second in enumerate(range(0, 36, 3)):
        world.play([Push(train, second, 3) for train in range(4)])
        if number % 4 == 1:
            world.fleet.migrate(
                "totals", keys=["t0", "t1"], to=("west", "east", "cloud")[number // 4], strategy=strategy
            )
        cut["on"] = number % 4 in (1, 2)
        time.sleep(0.05)
    cut["on"] = False
    world.fleet.pool.wake()
    assert [str(v) for v in world.finish() if not v.equal] == []
    assert not world.fleet.plane.keys.busy
