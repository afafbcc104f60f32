"""Queries by the time of arrival: what the log says of a row is what query and oracle read, whatever happens."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.api.fleet import Fleet
from godwit.engine.size_policy import SizePolicy
from godwit.errors import SqlError
from godwit.model.plan import Scan
from godwit.model.topology import Site, Topology
from godwit.protocol.inputs import Inputs, SourceEntry
from godwit.protocol.watermarks import Mark
from tests.region.test_running import ROWS, different, restless
from tests.region.world import START, Attach, Crash, Detach, Push, World, sized, three_regions

QUERIES = {
    "passed_on": "SELECT train, boarded, ts, _arrived AS at FROM passengers WHERE coach > 0",
    "counted": """SELECT train, count(*) AS n, max(ts) AS newest, window.end AS until
                  FROM passengers GROUP BY train, window(_arrived, '150 milliseconds')""",
    "proctime": """SELECT line, count(DISTINCT train) AS n, window_end AS until
                   FROM TABLE(HOP(TABLE p, DESCRIPTOR(t), INTERVAL '0.1' SECOND, INTERVAL '0.3' SECOND))
                   GROUP BY line, window_start, window_end""",
    "joined": """SELECT a.train, b.train AS other, a._arrived AS at FROM passengers a JOIN passengers b
                 ON a.coach = b.coach AND a._arrived BETWEEN b._arrived - INTERVAL 50 MILLISECONDS AND b._arrived
                 WHERE a.line = 'S41' AND b.line = 'S42'""",
    "lagged": """SELECT train, lag(ts) OVER (PARTITION BY train ORDER BY _arrived) AS before, _arrived AS at
                 FROM passengers""",
}
QUERIES["proctime"] = f"WITH p AS (SELECT *, PROCTIME() AS t FROM passengers) {QUERIES['proctime']}"


@pytest.mark.parametrize("sizes", [SizePolicy(), SizePolicy(small_rows=3, handed_rows=2)], ids=["few", "many"])
def test_windows_by_arrival_are_the_batchs_while_instances_move(
    open_fleet: Callable[..., Fleet], sizes: SizePolicy
) -> None:
    names = list(QUERIES)[1:] if sizes.handed_rows > 2 else ["counted"]
    world = World(sized(open_fleet, sizes), {name: QUERIES[name] for name in names})
    assert different(world, restless(names)) == []


def test_state_is_made_again_of_rows_that_arrived_then(open_fleet: Callable[..., Fleet]) -> None:
    world = World(partial(open_fleet, state="recreate-average"), {"counted": QUERIES["counted"]})
    assert different(world, restless(["counted"])) == []


def test_a_row_keeps_its_time_over_a_crash_and_a_device_that_is_away_holds_nothing_back(
    open_fleet: Callable[..., Fleet],
) -> None:
    world = World(open_fleet, QUERIES)
    for moment in ("staged", "committed"):
        world.play([*ROWS[:4], Detach(1), Push(1, 3, 4), Crash(moment), *ROWS[4:8], Attach(1, "west")])
    world.fleet.process_available()
    closed = world.fleet.query("counted").results().count()
    time.sleep(0.2)
    world.play([Detach(2), Push(0, 60, 2)])
    world.fleet.process_available()
    assert world.fleet.query("counted").results().count() > closed, "t2 is away, and windows close"
    assert different(world, []) == []


def test_time_goes_on_though_nothing_arrives(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("readings", "v int, ts timestamp", site="west", ahead=None)
    query = fleet.submit("SELECT count(*) AS n FROM readings GROUP BY window(_arrived, '300 milliseconds')", "n")
    fleet.start()
    fleet.push("readings", [{"v": 1, "ts": START}])
    until = time.monotonic() + 20
    while not query.results().count() and time.monotonic() < until:
        time.sleep(0.1)
    assert [row["n"] for row in query.results().collect()] == [1]


def test_recorded_files_arrive_when_they_are_taken_in(open_fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("readings", "v int, ts timestamp", site="west", ahead=None)
    query = fleet.submit("SELECT v, _arrived AS at, ts FROM readings WHERE v > 2", "q")
    rows = pa.table({"v": pa.array(range(6), pa.int32()), "ts": pa.array([START] * 6, pa.timestamp("us", tz="UTC"))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    began = time.time()
    fleet.replay("readings", [tmp_path / "rows.parquet"], ahead=1).run()
    fleet.close_sources()
    fleet.process_available()
    got = query.results().toPandas()
    assert sorted(got["v"]) == [3, 4, 5]
    assert began <= min(row["at"].timestamp() for row in query.results().collect()) <= time.time()
    assert query.verdict().equal


def test_what_has_no_arrival_is_refused(open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("readings", "v int, ts timestamp", site="west", ahead=None)
    fleet.table("names", "id int, name string", key="id")
    fleet.submit("INSERT INTO many SELECT v, ts FROM readings WHERE v > 1", "many")
    with pytest.raises(SqlError, match="'many' is derived"):
        fleet.submit("SELECT v, _arrived AS at FROM many", "q")
    with pytest.raises(SqlError, match="'names' is a reference table: its rows hold by event time"):
        fleet.submit("SELECT v, name, _arrived AS at FROM readings JOIN names ON v = id", "q")
    assert "_arrived" not in fleet.submit("SELECT * FROM readings", "all").results().columns


def test_a_mark_is_as_far_as_its_entry_where_a_scan_goes_by_arrival() -> None:
    entry: SourceEntry[str] = SourceEntry({"d": Mark(2, 17, turn=1)}, None, entered=12.5)
    for arrival, clock in ((True, 12_500_000), (False, 17)):
        inputs: Inputs[str] = Inputs()
        inputs.take_entry(0, Scan("s", "s", ("ts",), arrival=arrival), entry)  # type: ignore[arg-type]
        assert inputs.marks == [(0, "s/d", Mark(2, clock, turn=1))] == inputs.own_marks


def test_rows_that_come_too_late_are_a_stream(open_fleet: Callable[..., Fleet]) -> None:
    """A row is late if its device has promised more: its newest row before, less the disorder."""
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    fleet.stream("readings", "d string, v int, ts timestamp", device="d", disorder="2 seconds", ahead=None)
    for name, site in (("a", "west"), ("b", "east")):
        fleet.device(name, site=site, streams=["readings"])
    late = fleet.submit("SELECT d, v, ts FROM late.readings", "late")
    counted = fleet.submit(
        "SELECT d, count(*) AS n, window.end AS u FROM late.readings GROUP BY d, window(_arrived, '1 hour')", "counted"
    )
    rng, promised, wanted = random.Random(4), dict.fromkeys("ab", -1e9), []
    for number in range(40):
        rows = []
        for device in rng.choice([("a",), ("b",), ("a", "b")]):
            seconds = [number + rng.uniform(-6, 1) for _ in range(rng.randrange(1, 4))]
            rows += [{"d": device, "v": number, "ts": START + dt.timedelta(seconds=s)} for s in seconds]
            wanted += [(device, number, s) for s in seconds if s < promised[device]]
            promised[device] = max(promised[device], *(s - 2 for s in seconds))
        fleet.push("readings", rows)
        if number == 20:
            fleet.device("a").attach("east")
        if number % 9 == 0:
            fleet.process_available()
    fleet.close_sources()
    fleet.process_available()
    got = sorted((r["d"], r["v"], (r["ts"].timestamp() - START.timestamp())) for r in late.results().collect())
    assert got == [(device, v, pytest.approx(s, abs=1e-5)) for device, v, s in sorted(wanted)]
    assert len(got) > 10
    assert [str(q.verdict()) for q in (late, counted) if not q.verdict().equal] == []
    assert sum(row["n"] for row in counted.results().collect()) == len(wanted)


def _late_by_hand(batches: list[list[dict[str, Any]]]) -> list[tuple[str, int]]:
    """(device, v) of rows that are older than their device's newest of earlier batches, less two seconds."""
    promised: dict[str, dt.datetime] = {}
    found = []
    for rows in batches:
        found += [(r["d"], r["v"]) for r in rows if r["d"] in promised and r["ts"] < promised[r["d"]]]
        for row in rows:
            told = row["ts"] - dt.timedelta(seconds=2)
            promised[row["d"]] = max(promised.get(row["d"], told), told)
    return sorted(found)


@pytest.mark.parametrize("how", ["replay", "csv", "spark"])
def test_rows_of_files_and_spark_sources_can_be_late(
    open_fleet: Callable[..., Fleet], tmp_path: Path, how: str
) -> None:
    """Files that are taken over as they are, files that are cast, and what a streaming source of Spark's brings."""
    fleet = open_fleet()
    fleet.topology.add(three_regions())
    fleet.stream("readings", "d string, v int, ts timestamp", device="d", disorder="2 seconds", ahead=None)
    for name, site in (("a", "west"), ("b", "west" if how == "replay" else "east")):
        fleet.device(name, site=site, streams=["readings"])
    late = fleet.submit("SELECT d, v, ts FROM late.readings", "late")
    rng = random.Random(9)
    seconds = [[number * 3 + rng.uniform(-9, 3) for _ in range(6)] for number in range(8)]
    batches = [
        [{"d": rng.choice("ab"), "v": n * 10 + i, "ts": START + dt.timedelta(seconds=s)} for i, s in enumerate(some)]
        for n, some in enumerate(seconds)
    ]
    kinds = pa.schema([("d", pa.string()), ("v", pa.int32()), ("ts", pa.timestamp("us", tz="UTC"))])
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(batches):
        table = pa.Table.from_pylist(rows, kinds)
        file = tmp_path / "in" / f"{number}.{'csv' if how == 'csv' else 'parquet'}"
        table.to_pandas().to_csv(file, index=False) if how == "csv" else pq.write_table(table, file)
        os.utime(file, (1e9 + number, 1e9 + number))  # (Spark takes the oldest first)
    if how == "spark":
        files = fleet.spark.readStream.schema("d string, v int, ts timestamp").option("maxFilesPerTrigger", 1)
        fleet.ingest("readings", files.parquet(str(tmp_path / "in"))).process_available()
    else:
        fleet.replay("readings", str(tmp_path / "in" / "*")).run()
    fleet.close_sources()
    fleet.process_available()
    wanted = _late_by_hand(batches)
    assert sorted((row["d"], row["v"]) for row in late.results().collect()) == wanted
    assert len(wanted) > 5
    assert late.verdict().equal
