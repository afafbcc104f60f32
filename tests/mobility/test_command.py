"""`godwit mobility`: files and a summary from a seed; a bad question ends with a message that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from godwit.cli.mobility import app
from godwit.mobility.nebula import read_nebula
from godwit.mobility.trace import read_trace
from godwit.mobility.twin import read_calls
from godwit.model.topology_file import load_topology

from .feeds import write_feed, write_towers

RUN = CliRunner()


@pytest.mark.parametrize("world", ["ring", "city", "field"])
def test_synth_writes_what_can_be_read(tmp_path: Path, world: str) -> None:
    args = [
        "synth",
        world,
        "--out",
        str(tmp_path),
        "--devices",
        "6",
        "--seconds",
        "30",
        "--seed",
        "3",
        "--regions",
        "3",
    ]
    result = RUN.invoke(app, args)
    assert result.exit_code == 0, result.output
    assert "hand-overs" in result.output
    topology = load_topology(tmp_path / "topology.yaml")
    trace = read_trace(tmp_path / "trace.jsonl", topology.sites)
    assert len(trace.devices) == 6
    assert trace.duration_ms == 30_000
    assert read_nebula(tmp_path / "nebula").trace.events == trace.events
    assert bool(read_calls(tmp_path / "calls.jsonl")) == (world == "ring")
    assert json.loads((tmp_path / "summary.json").read_text())["devices"] == 6


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        assert RUN.invoke(app, ["synth", "ring", "--out", str(tmp_path / folder), "--devices", "4"]).exit_code == 0
    for name in ("trace.jsonl", "topology.yaml", "nebula/topology_updates.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_build_reads_the_options(spark: SparkSession, tmp_path: Path) -> None:
    args = ["build", "--towers", str(write_towers(tmp_path)), "--gtfs", str(write_feed(tmp_path)), "--lines", "S1"]
    args += ["--day", "monday", "--from", "12:00", "--to", "12:10", "--speedup", "10", "--hysteresis", "0"]
    result = RUN.invoke(app, [*args, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    trace = read_trace(tmp_path / "out" / "trace.jsonl")
    assert [(event.t, event.kind) for event in trace.events] == [
        (0, "attach"),
        (7600, "handover"),
        (19600, "handover"),
        (24000, "detach"),
    ]
    assert "2 (0.03 per second)" in result.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--from", "13:00", "--to", "12:00"], "the window is empty"),
        (["--from", "noon"], "is not a time of day"),
        (["--day", "someday"], "neither a weekday"),
        (["--speedup", "0"], "Invalid value for '--speedup'"),
    ],
)
def test_a_bad_question_ends_with_its_message(tmp_path: Path, args: list[str], says: str) -> None:
    towers, gtfs = tmp_path / "t.csv", tmp_path / "g"
    towers.touch()
    gtfs.mkdir()
    build = ["build", "--towers", str(towers), "--gtfs", str(gtfs), "--out", str(tmp_path / "o")]
    result = RUN.invoke(app, [*build, *args])
    by_option = says.startswith("Invalid value")  # refused by its range, as every command does it
    assert result.exit_code == (2 if by_option else 1)
    assert ("Error: " if by_option else "error: ") in result.output
    assert says in " ".join(result.output.split())
    assert not (tmp_path / "o").exists()
    assert RUN.invoke(app, ["synth", "ring", "--out", str(tmp_path / "o"), "--devices", "0"]).exit_code == 2
