"""`godwit explain`: the plan, the placement, and what a change would do. No Spark is imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Call

TOPOLOGY = """
sites:
  - {id: west, region: edge-west}
  - {id: east, region: edge-east}
  - {id: cloud, region: cloud}
links:
  - {from: west, to: cloud, ms: 2}
  - {from: east, to: cloud, ms: 2}
devices:
  - {id: t1, site: west}
  - {id: t2, site: west}
"""
STREAMS = """
streams:
  - {name: passengers, schema: "train string, boarded int, ts timestamp", device: train}
"""
SQL = "SELECT train, sum(boarded) AS n, window.end AS until FROM passengers GROUP BY train, window(ts, '10 seconds')"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    made = {"t.yaml": TOPOLOGY, "streams.yaml": STREAMS, "busy.sql": SQL}
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in made}


def test_plan_and_placement(call: Call, files: dict[str, Path]) -> None:
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"], "--sink", "cloud")
    assert told.exit_code == 0, told.stderr
    for words in ("== Plan ==", "Scan passengers", "== Placement ==", "busy/"):
        assert words in told.stdout
    assert "cloud" in told.stdout.split("== Placement ==")[1]


def test_a_change_is_planned_and_taken_back(call: Call, files: dict[str, Path]) -> None:
    told = call(
        "explain",
        files["busy.sql"],
        *("--topology", files["t.yaml"], "--streams", files["streams.yaml"], "--sink", "cloud"),
        *("--change", "device t1 -> east"),
    )
    assert told.exit_code == 0, told.stderr
    after = told.stdout.split("== Change ==")[1]
    assert "device t1 -> east" in after
    assert "deployment contexts:" in after


def test_state_that_would_move_is_named_with_its_way(call: Call, files: dict[str, Path]) -> None:
    """Both trains leave west; the aggregate that stood there follows, over the links there are."""
    (files["t.yaml"].parent / "moves.txt").write_text(
        "# both leave\ndevice t1 -> east\ndevice t2 -> east\nsite west removed\n"
    )
    told = call(
        "explain",
        files["busy.sql"],
        *("--topology", files["t.yaml"], "--change", files["t.yaml"].parent / "moves.txt", "-o", "json"),
    )
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["query"] == "busy"
    assert "site west removed" in found["change"]
    assert "state west -> cloud -> east" in found["change"]


def test_a_change_that_does_not_fit_is_refused(call: Call, files: dict[str, Path]) -> None:
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"], "--change", "device t7 -> east")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: cannot apply DeviceMoved")
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nobody FROM passengers", "nobody"),
        ("SELECT train, sum(boarded) FROM passengers GROUP BY train", "remedy"),
    ],
)
def test_sql_errors_name_place_and_remedy(call: Call, files: dict[str, Path], sql: str, words: str) -> None:
    files["busy.sql"].write_text(sql)
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"])
    assert told.exit_code == 1
    assert words in told.stderr
    assert told.stdout == ""


def test_without_streams_it_says_where_they_belong(call: Call, files: dict[str, Path]) -> None:
    files["streams.yaml"].unlink()
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"])
    assert told.exit_code == 1
    assert "--streams" in told.stderr


def test_missing_files_are_named(call: Call, files: dict[str, Path], tmp_path: Path) -> None:
    told = call("explain", tmp_path / "no.sql", "--topology", files["t.yaml"])
    assert (told.exit_code, "no.sql" in told.stderr) == (1, True)
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"], "--change", "no-such-file")
    assert (told.exit_code, "neither a change" in told.stderr) == (1, True)
    files["streams.yaml"].write_text("streams: 7")
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"])
    assert (told.exit_code, "there is no list 'streams'" in told.stderr) == (1, True)
    files["streams.yaml"].write_text("streams: [{nam: s}]")
    told = call("explain", files["busy.sql"], "--topology", files["t.yaml"])
    assert (told.exit_code, "entry 0" in told.stderr) == (1, True)


def test_no_spark_for_what_needs_none(files: dict[str, Path]) -> None:
    """In a process of its own: explaining, and every command's help, leave pyspark alone."""
    program = f"""
import sys
from typer.testing import CliRunner
from godwit.cli.main import app, COMMANDS
runner = CliRunner()
told = runner.invoke(app, ["explain", {str(files["busy.sql"])!r}, "--topology", {str(files["t.yaml"])!r}])
assert told.exit_code == 0, told.output
for name in ("explain", "history", "status", "change", "run", "demo"):
    assert runner.invoke(app, [name, "--help"]).exit_code == 0, name
print("pyspark" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == "False"
