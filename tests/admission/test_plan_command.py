"""`godwit plan` on whole workload files: good ones with what they must show, bad ones with the error they must give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from godwit.cli.plan import plan

FILES = Path(__file__).parent / "workloads"
app = typer.Typer()
app.command()(plan)


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_the_shared_join_is_shown_once() -> None:
    answer = run(str(FILES / "good/shared_join.yaml"), "-o", "json")
    assert answer.exit_code == 0, answer.output
    report = json.loads(answer.stdout)
    assert [row["admitted"] for row in report["queries"]] == [True] * 3
    wet = next(row for row in report["queries"] if row["query"] == "wet-meetings")
    assert wet["reused"] == ["(cars * trains)[cars.site = trains.site]"]
    assert any("[shared with meetings]" in line for line in wet["lines"])
    assert set(report["hosts"]) == {"edge-1", "edge-2", "cloud"}


def test_table_shows_trees_and_hosts() -> None:
    answer = run(str(FILES / "good/shared_join.yaml"), "-o", "table")
    assert answer.exit_code == 0
    assert "wet-meetings  admitted, reuses" in answer.stdout
    assert "at home on edge-1" in answer.stdout
    assert "used / capacity" in answer.stdout


def test_what_if_tries_without_admitting() -> None:
    answer = run(str(FILES / "good/too_much.yaml"), "--what-if", "too-much", "-o", "json")
    assert answer.exit_code == 1
    report = json.loads(answer.stdout)
    tried = report["queries"][-1]
    assert tried["what_if"]
    assert not tried["admitted"]
    assert "15 more CPU at 'box'" in tried["reason"]
    assert report["hosts"]["box"]["cpu"][0] == pytest.approx(20.0)


def test_what_if_of_an_unknown_query() -> None:
    answer = run(str(FILES / "good/too_much.yaml"), "--what-if", "nobody")
    assert answer.exit_code == 2
    assert "no such query" in answer.output


def test_missing_file() -> None:
    answer = run("nowhere.yaml")
    assert answer.exit_code == 2
    assert "cannot read" in answer.output


@pytest.mark.parametrize("path", sorted((FILES / "bad").glob("*.yaml")), ids=lambda path: path.stem)
def test_bad_files_say_where_and_what(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# expect: ")
    answer = run(str(path))
    assert answer.exit_code == 2
    assert expected in " ".join(answer.output.split())
