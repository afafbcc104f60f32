"""`godwit run` on Spark, and a running fleet that hears of changes through its inbox."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from godwit.api.fleet import Fleet
from godwit.model.topology import Device, Link, Site, Topology
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
    assert "device t1 -> " in listed.stdout  # to no site first, unless that and the next were taken together


def test_trains_that_start_after_the_end_hold_no_window_open(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    """Two trains are in the topology and in the trace, and would attach only after the scenario is over."""
    text = (GOOD / "two_trains.yaml").read_text()
    text = text.replace("    - {id: t2, site: east}\n", "    - {id: t2, site: east}\n    - {id: t3}\n    - {id: t4}\n")
    (tmp_path / "late.yaml").write_text(f"{text}duration: 8 seconds\n")
    for name in ("busy.sql", "two_trains.calls.jsonl"):
        (tmp_path / name).write_text((GOOD / name).read_text())
    later = [
        {"t": t, "device": device, "kind": "attach", "site": "west", "previous": None}
        for t, device in ((8500, "t3"), (8900, "t4"))
    ]
    trace = (GOOD / "two_trains.trace.jsonl").read_text() + "".join(json.dumps(event) + "\n" for event in later)
    (tmp_path / "two_trains.trace.jsonl").write_text(trace)
    told = call("run", tmp_path / "late.yaml", "--folder", tmp_path / "fleet", "--as-fast-as-possible", "-o", "json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert [(v["query"], v["equal"]) for v in found["verdicts"]] == [("occupancy", True), ("busy", True)]
    assert found["results"]["occupancy"] > 0


def test_replay_and_sink(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    text = (GOOD / "replay.yaml").read_text().replace("value > 20", "value > 21")
    (tmp_path / "replay.yaml").write_text(text.rstrip().removesuffix("}") + ", write_to: {json_lines: out.jsonl}}\n")
    for name in ("field.topology.yaml", "readings.jsonl"):
        (tmp_path / name).write_text((GOOD / name).read_text())
    told = call("run", tmp_path / "replay.yaml", "--folder", tmp_path / "fleet", "-o", "table")
    assert told.exit_code == 0, told.stderr
    assert "equal" in told.stdout
    assert [json.loads(line)["value"] for line in (tmp_path / "out.jsonl").read_text().splitlines()] == [21.5, 22.5]


def test_a_scenario_lets_in_only_what_fits(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    """A sensor that sends 5 Mbit/s, at a site that can send 1: half of it would have to go out."""
    (tmp_path / "field.topology.yaml").write_text("sites: [{id: hall, cpu: 4, nic_in_mbps: 9, nic_out_mbps: 1}]\n")
    (tmp_path / "readings.jsonl").write_text((GOOD / "readings.jsonl").read_text())
    text = (GOOD / "replay.yaml").read_text() + "admission: balance\n"
    for mbps, fits in ((5, False), (1, True)):
        (tmp_path / "replay.yaml").write_text(text.replace("device: sensor", f"device: sensor, mbps: {mbps}"))
        told = call("run", tmp_path / "replay.yaml", "--folder", tmp_path / f"fleet-{mbps}", "-o", "table")
        assert (told.exit_code == 0) == fits, told.stderr
        assert ("query 'warm' does not fit" in told.stderr.replace("\n", " ")) != fits


def test_changes_reach_a_running_fleet(call: Call, open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    sites = [Site("west"), Site("east")]  # type: ignore[arg-type]
    fleet.topology.add(Topology.of(sites, [Link("west", "east")], [Device("t1", "west")]))  # type: ignore[arg-type]
    fleet.start()
    told = call("change", fleet.root, "device t1 -> east")
    assert (told.exit_code, told.stdout.strip()) == (0, f"accepted: epoch {fleet.deployment.epoch}"), told.stderr
    assert fleet.topology.now.devices["t1"].site == "east"  # type: ignore[index]
    told = call("change", fleet.root, "device t7 -> east")
    assert told.exit_code == 1
    assert "there is no such device" in told.stderr


def test_queries_reach_a_running_fleet(call: Call, open_fleet: Callable[..., Fleet]) -> None:
    fleet = open_fleet()
    fleet.topology.add(Topology.of([Site("west")]))  # type: ignore[arg-type]
    fleet.stream("readings", "v int, ts timestamp", site="west")
    fleet.start()
    told = call("submit", fleet.root, "q", "SELECT v, ts FROM readings WHERE v > 1")
    assert (told.exit_code, told.stdout.strip()) == (0, f"accepted: epoch {fleet.deployment.epoch}"), told.stderr
    assert fleet.queries == ["q"]
    told = call("submit", fleet.root, "p", "SELECT nothing FROM readings")
    assert told.exit_code == 1
    assert "nothing" in told.stderr
    told = call("alter", fleet.root, "q", "SELECT v, ts FROM readings WHERE v > 5")
    assert told.exit_code == 0, told.stderr
    assert fleet.execution(fleet.queries[0]).parameters == ("5",)
    told = call("alter", fleet.root, "q", "SELECT v FROM readings")
    assert told.exit_code == 1
    assert "another shape" in told.stderr
    assert call("withdraw", fleet.root, "q").exit_code == 0
    assert fleet.queries == []
