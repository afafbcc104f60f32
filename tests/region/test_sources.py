"""Sources: recorded files and Spark's own streaming sources come in once, and what does not fit is told."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.errors import ConfigError, SourceError
from godwit.ids import DeviceId, SiteId
from godwit.ingest.sources.feeder import Feeder
from godwit.model.changes import DeviceMoved
from godwit.model.topology import Link, Site, Topology
from godwit.storage.names import source_log

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = "train string, boarded int, ts timestamp"


def begin(fleet: Fleet, trains: int = 2) -> QueryHandle:
    """Two regions, a train in each."""
    fleet.topology.add(Topology.of([Site("west", "w"), Site("east", "e")], [Link("west", "east")]))
    fleet.stream("passengers", SCHEMA, device="train", disorder="1 hour")
    for number in range(trains):
        fleet.device(f"t{number}", site=("west", "east")[number % 2], streams=["passengers"])
    return fleet.submit("SELECT train, boarded, ts FROM passengers", "all")


def table(fleet: Fleet, numbers: range, trains: int = 2) -> pa.Table:
    some = [{"train": f"t{i % trains}", "boarded": i, "ts": START + dt.timedelta(seconds=i / 10)} for i in numbers]
    return pa.Table.from_pylist(some, schema=fleet.schema("passengers").arrow)  # type: ignore[arg-type]


def boarded(query: QueryHandle) -> list[int]:
    return sorted(r.boarded for r in query.results().collect())


def segments_of(fleet: Fleet, region: str) -> list[list[str]]:
    log = fleet.store.log(source_log(region, "passengers"))
    return [record["segment"]["files"] for _, record in log.after(0) if record["segment"] is not None]


def test_parquet_of_one_region_is_read_where_it_lies(open_fleet: OpenFleet, tmp_path: Path) -> None:
    fleet = open_fleet()
    query = begin(fleet, trains=1)
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(table(fleet, range(10), trains=1), files[0])
    pq.write_table(table(fleet, range(10, 20), trains=1), files[1])
    assert fleet.replay("passengers", str(tmp_path / "*.parquet")).run() == 20
    assert segments_of(fleet, "w") == [[str(file)] for file in files]
    fleet.process_available()
    assert boarded(query) == list(range(20))
    again = open_fleet()
    assert again.replay("passengers", files).run() == 0  # it came through before
    again.process_available()
    assert boarded(again.query("all")) == list(range(20))


def test_rows_of_two_regions_are_parted_and_a_repeat_brings_only_what_is_missing(
    open_fleet: OpenFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    begin(fleet)
    file = tmp_path / "a.parquet"
    pq.write_table(table(fleet, range(10)), file)
    real, calls = fleet.gateway.feed, []

    def once(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            msg = "the power fails between the two regions' logs"
            raise RuntimeError(msg)
        real(*args)

    monkeypatch.setattr(fleet.gateway, "feed", once)
    with pytest.raises(RuntimeError, match="power"):
        fleet.replay("passengers", file).run()
    again = open_fleet()
    assert again.replay("passengers", file).run() == 5
    again.process_available()
    assert boarded(again.query("all")) == list(range(10))


def test_devices_that_leave_a_region_together_end_their_sessions_in_one_entry(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    query = begin(fleet, trains=6)
    fleet.push("passengers", table(fleet, range(12), trains=6))
    west = fleet.store.log(source_log("w", "passengers"))
    before = west.end()
    fleet.change([DeviceMoved(DeviceId(f"t{n}"), SiteId("east")) for n in (0, 2, 4)])
    ((_, entry),) = west.after(before)
    assert sorted(entry["marks"]) == ["t0", "t2", "t4"]
    fleet.push("passengers", table(fleet, range(12, 24), trains=6))
    fleet.close_sources()
    fleet.process_available()
    assert query.verdict().equal


def test_lines_that_do_not_fit_are_dead_letters_with_the_reason(open_fleet: OpenFleet, tmp_path: Path) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    lines = [
        '{"train":"t0","boarded":1,"ts":"2026-01-01T00:00:01Z"}',
        '{"train":"t1","boarded":"many"',
        '{"boarded":3}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.csv").write_text("train,boarded,ts\nt1,2,2026-01-01T00:00:02Z\nt1,few,2026-01-01T00:00:03Z\n")
    replay = fleet.replay("passengers", [tmp_path / "a.jsonl", tmp_path / "b.csv"])
    assert replay.run() == 2
    fleet.process_available()
    assert boarded(query) == [1, 2]
    dead = fleet.dead_letters()
    assert len(dead) == 3
    assert all(letter["stream"] == "passengers" for letter in dead)
    assert sorted(letter["reason"].split(" ")[0] for letter in dead) == ["it", "it", "ts"]
    assert "many" in json.dumps(dead)
    assert fleet.status().dead == {"passengers": 3}


def test_a_replay_keeps_pace_and_does_not_run_ahead(open_fleet: OpenFleet, tmp_path: Path) -> None:
    fleet = open_fleet()
    query = begin(fleet, trains=1)
    pq.write_table(table(fleet, range(40), trains=1), tmp_path / "a.parquet")  # four seconds
    began = time.monotonic()
    replay = fleet.replay("passengers", tmp_path / "a.parquet", speed=4.0, ahead=1)
    assert replay.run() == 40
    assert time.monotonic() - began >= 0.7  # the last slice is due three seconds after the first, at four times
    assert len(segments_of(fleet, "w")) == 4
    feeder = Feeder(fleet, "passengers", "replay", 1)  # type: ignore[arg-type]
    assert feeder._unread() <= 2
    fleet.process_available()
    assert boarded(query) == list(range(40))


def test_a_spark_source_comes_in_once(open_fleet: OpenFleet, spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "1.json").write_text(
        '{"train":"t0","boarded":1,"ts":"2026-01-01T00:00:01Z"}\n{"train":"t0","boarded":2}\n'
    )

    def read() -> Any:
        return spark.readStream.schema("train string, boarded string, ts string").json(str(landing))

    fleet = open_fleet()
    begin(fleet)
    source = fleet.ingest("passengers", read())
    source.process_available()
    fleet.process_available()
    source.stop()
    again = open_fleet()
    (landing / "2.json").write_text(
        '{"train":"t1","boarded":"3","ts":"2026-01-01T00:00:01Z"}\n{"train":"t0","boarded":"x","ts":"2026-01-01"}\n'
        '{"train":"t9","boarded":"5","ts":"2026-01-01"}\n'
    )
    source = again.ingest("passengers", read())
    source.process_available()
    again.process_available()
    assert source.rows == 1
    assert boarded(again.query("all")) == [1, 3]
    reasons = [letter["reason"] for letter in again.dead_letters()]
    assert reasons[:2] == ["ts is missing: every row needs an event time", "boarded is not a int"]
    assert "not attached to any site" in reasons[2]
    # Spark repeats a batch whose commit it lost; the log knows it.
    source._take(spark.read.schema("train string, boarded string, ts string").json(str(landing / "2.json")), 1)
    again.process_available()
    assert boarded(again.query("all")) == [1, 3]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda f: f.ingest("passengers", "kafka"), ConfigError, "has no source of format 'kafka'"),
        (lambda f: f.ingest("passengers", f.spark.range(1)), SourceError, "is not a streaming DataFrame"),
        (
            lambda f: f.ingest("passengers", "rate", rowsPerSecond="1"),
            SourceError,
            "lacks column train, boarded, ts; it has",
        ),
        (lambda f: f.ingest("passengers", "text"), SourceError, "cannot open a source of format 'text'"),
        (lambda f: f.replay("passengers", "nothing*.parquet"), SourceError, "there is no file nothing"),
        (lambda f: f.replay("passengers", "pyproject.toml"), SourceError, "its format is not known"),
        (lambda f: f.replay("passengers", "pyproject.toml", speed=0), SourceError, "never ends"),
        (lambda f: f.replay("elsewhere", "pyproject.toml"), SourceError, "there is no stream 'elsewhere'"),
    ],
)
def test_bad_sources(open_fleet: OpenFleet, act: Callable[[Fleet], Any], error: type[Exception], words: str) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west", "w")]))
    fleet.stream("passengers", SCHEMA, device="train")
    with pytest.raises(error, match=words.replace("*", r"\*")):
        act(fleet)


def test_a_recorded_file_that_lacks_a_column_is_refused(open_fleet: OpenFleet, tmp_path: Path) -> None:
    fleet = open_fleet()
    begin(fleet, trains=1)
    pq.write_table(table(fleet, range(3)).drop_columns(["boarded"]), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="lacks column boarded of stream 'passengers'"):
        fleet.replay("passengers", tmp_path / "a.parquet").run()
