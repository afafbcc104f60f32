"""Sinks: every committed result arrives, once where the sink says so, and a restart goes on where it was."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.delivery.sinks import CallbackSink, ConsoleSink, JsonLinesSink, ParquetSink
from godwit.errors import DeploymentError
from godwit.model.topology import Site, Topology

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(first: int, count: int = 5) -> list[dict[str, Any]]:
    return [
        {"name": f"n{i % 3}", "size": i, "ts": START + dt.timedelta(seconds=i)} for i in range(first, first + count)
    ]


def begin(fleet: Fleet) -> QueryHandle:
    fleet.topology.add(Topology.of([Site("here", "one")]))
    fleet.stream("readings", "name string, size int, ts timestamp", site="here")
    return fleet.submit("SELECT name, size * 2 AS twice, ts FROM readings WHERE size % 5 <> 4", "double")


def test_all_sinks_get_every_result(open_fleet: OpenFleet, spark: SparkSession, tmp_path: Path) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    got: list[dict[str, Any]] = []
    shown = io.StringIO()
    query.write_to(ParquetSink(tmp_path / "out"))
    query.write_to(JsonLinesSink(tmp_path / "out.jsonl"))
    query.write_to(CallbackSink(got.extend))
    query.write_to(ConsoleSink(rows=3, console=Console(file=shown, width=100)))
    for batch in range(3):
        fleet.push("readings", rows(batch * 5))
        fleet.process_available()
    want = sorted(2 * i for i in range(15) if i % 5 != 4)
    assert sorted(r["twice"] for r in got) == want
    assert sorted(r.twice for r in spark.read.parquet(str(tmp_path / "out")).collect()) == want
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted(line["twice"] for line in lines) == want
    assert lines[0].keys() == {"name", "twice", "ts"}
    assert "and 1 more rows" in shown.getvalue()
    told = {s.sink.partition(":")[0]: s.exactly_once for s in fleet.status().sinks}
    assert told == {"parquet": True, "json": True, "callback": False, "console": False}
    assert all(s.behind == 0 for s in fleet.status().sinks)


def test_a_crash_between_writing_and_remembering_shows_in_no_exactly_once_sink(
    open_fleet: OpenFleet, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    deliveries = [query.write_to(ParquetSink(tmp_path / "out")), query.write_to(JsonLinesSink(tmp_path / "out.jsonl"))]
    seen: list[int] = []
    deliveries.append(query.write_to(CallbackSink(lambda some: seen.extend(r["twice"] for r in some))))
    fleet.push("readings", rows(0))
    fleet.process_available()
    fleet.push("readings", rows(5))
    for delivery in deliveries:
        monkeypatch.setattr(delivery, "_save", lambda state: None)  # the process dies before the position is kept
    fleet.process_available()
    again = open_fleet()
    query = again.query("double")
    query.write_to(ParquetSink(tmp_path / "out"))
    query.write_to(JsonLinesSink(tmp_path / "out.jsonl"))
    query.write_to(CallbackSink(lambda some: seen.extend(r["twice"] for r in some)))
    again.push("readings", rows(10))
    again.process_available()
    want = sorted(2 * i for i in range(15) if i % 5 != 4)
    assert sorted(r.twice for r in spark.read.parquet(str(tmp_path / "out")).collect()) == want
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["twice"] for line in lines) == want
    assert set(seen) == set(want)
    assert len(seen) == len(want) + 4  # at least once: the second batch came twice


def test_a_sink_that_fails_is_told_and_the_others_go_on(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    got: list[dict[str, Any]] = []

    def refuse(_: list[dict[str, Any]]) -> None:
        msg = "no room"
        raise OSError(msg)

    query.write_to(CallbackSink(refuse, name="full"))
    query.write_to(CallbackSink(got.extend, name="other"))
    fleet.push("readings", rows(0))
    fleet.process_available()
    assert len(got) == 4
    with pytest.raises(DeploymentError, match="sink full of query double has stopped: no room"):
        fleet.check()
    assert "no room" in fleet.status().failures["sink full of query double"]


def test_a_sink_that_comes_late_gets_what_is_kept(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    fleet.push("readings", rows(0))
    fleet.process_available()
    got: list[dict[str, Any]] = []
    query.write_to(CallbackSink(got.extend))
    fleet.process_available()
    assert len(got) == 4
