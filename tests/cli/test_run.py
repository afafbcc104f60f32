"""`godwit run` on Spark, and a running fleet that hears of changes through its inbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.model.topology import Device, Link, Site, Topology
from godwit.runtime.fleet import Fleet
from tests.cli.conftest import Call

GOOD = Path(__file__).parent.parent / "fixtures" / "scenarios" / "good"


def test_a_scenario_from_file_to_verdict(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    told = call("run", GOOD / "two_trains.yaml", "--folder", tmp_path / "fleet", "--as-fast-as-possible", "-o", "json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["rows"] == 32
    assert found["handovers"] == 2
    assert [(v["query"], v["equal"]) for v in found["verdicts"]] == [("occupancy", True), ("busy", True)]
    assert found["results"]["occupancy"] > 0
    listed = call("history", tmp_path / "fleet", "-o", "table")
    assert "DeviceMoved(t1, None)" in listed.stdout


def test_replay_and_sink(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    text = (GOOD / "replay.yaml").read_text().replace("value > 20", "value > 21")
    (tmp_path / "replay.yaml").write_text(text.rstrip().removesuffix("}") + ", write_to: {json_lines: out.jsonl}}\n")
    for name in ("field.topology.yaml", "readings.jsonl"):
        (tmp_path / name).write_text((GOOD / name).read_text())
    told = call("run", tmp_path / "replay.yaml", "--folder", tmp_path / "fleet", "-o", "table")
    assert told.exit_code == 0, told.stderr
    assert "equal" in told.stdout
    assert [json.loads(line)["value"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [21.5, 22.5]


def test_changes_reach_a_running_fleet(call: Call, open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    sites = [Site("west"), Site("east")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, [Link("west", "east")], [Device("t1", "west")]))  # type: ignore[arg-type]
    fleet.start()
    told = call("change", fleet.root, "device t1 -> east")
    assert (told.exit_code, told.stdout.strip()) == (0, "taken"), told.stderr
    assert fleet.topology.now.devices["t1"].site == "east"  # type: ignore[index]
    told = call("change", fleet.root, "device t7 -> east")
    assert told.exit_code == 1
    assert "there is no such device" in told.stderr
    (fleet.root / "inbox" / "1.json").write_text('{"changes": 7}')
    fleet.stop()
    fleet.inbox.look()
    assert "must be a list of lines" in (fleet.root / "inbox" / "refused" / "1.reason").read_text()
