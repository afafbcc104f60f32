"""Connectors that a file names are made as Python would make them; and a project to start from."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from godwit.cli.logs import JsonLines
from godwit.cli.main import app
from godwit.delivery.sinks import PostgresqlSink
from godwit.errors import ConfigError
from godwit.scenario.spec import load_scenario

FILE = Path(__file__).parent.parent / "fixtures" / "scenarios" / "good" / "connectors.yaml"


def test_every_sink_of_a_file_is_made() -> None:
    pytest.importorskip("confluent_kafka")
    scenario = load_scenario(FILE)
    sinks = scenario.queries[0].write_to.sinks(scenario.home)
    kinds = ["delta", "iceberg", "postgresql", "webhook", "mqtt", "nats", "kafka"]
    assert [sink.name.partition(":")[0] for sink in sinks] == kinds
    assert len({sink.name for sink in sinks}) == len(sinks)


def test_a_dsn_that_cannot_be_read_is_told_when_the_file_is() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigError, match=r'^postgresql dsn: missing "=" after "dbname" in .*; write "host=db port'):
        PostgresqlSink("host=db dbname", "busy")


def test_init_writes_a_project_that_holds_together_and_overwrites_nothing(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["init", str(tmp_path / "project")])
    assert made.exit_code == 0, made.output
    scenario = load_scenario(tmp_path / "project" / "scenario.yaml")
    assert [query.name for query in scenario.queries] == ["boarded"]
    assert (tmp_path / "project" / "counts.jsonl").exists()
    again = run.invoke(app, ["init", str(tmp_path / "project")])
    assert again.exit_code == 1
    assert "already" in again.output


def test_json_logs_are_an_object_per_record() -> None:
    try:
        raise ValueError("x")  # noqa: EM101
    except ValueError as error:
        fault = (type(error), error, error.__traceback__)
    record = logging.LogRecord("godwit.x", logging.WARNING, "", 1, "a %s\nline", ("b",), fault)
    text = JsonLines().format(record)
    assert "\n" not in text
    told = json.loads(text)
    assert (told["level"], told["logger"], told["message"]) == ("warning", "godwit.x", "a b\nline")
    assert "ValueError: x" in told["exception"]


def test_the_shell_can_be_taught_the_commands() -> None:
    told = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in told
    assert "--server" in told
