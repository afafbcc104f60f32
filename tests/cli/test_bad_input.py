"""What a newcomer types wrong: one clear line, at once (before Spark starts), and nothing is left behind."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from godwit.control.redeploy.strategy import STRATEGIES as REDEPLOYMENTS
from godwit.migration.base import STRATEGIES as STATES
from godwit.migration.phases import KEY_STRATEGIES
from godwit.placement.rules.base import RULES
from godwit.placement.search.names import SEARCHES
from godwit.replan.steps import PLAN_STRATEGIES
from godwit.server.access import digest_of, load_tokens
from tests.cli.conftest import Call

NOT_YAML = "# a page\n\ntext: goes on\n    make demo      # trains: a dozen\nmore\n"


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("Spark was started for a call that cannot succeed")

    monkeypatch.setattr("godwit.api.fleet.spark_session", started)
    monkeypatch.setattr("godwit.engine.session.spark_session", started)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("serve F --certificate no.pem --key no.key", "no.pem and --key no.key cannot be used: No such file"),
        ("serve F --certificate PAGE --key PAGE", "cannot be used"),
        ("serve F --certificate PAGE", "TLS needs both"),
        ("serve F --topology no.yaml", "cannot read the topology file no.yaml: No such file"),
        ("serve F --topology PAGE", "not YAML"),
        ("serve F --config PAGE", "not YAML"),
        ("serve F --tokens PAGE", "not YAML"),
        ("serve PAGE --port 0", "page.md cannot be a fleet's folder: File exists"),
        ("serve F --tokens no.yaml", "cannot read the tokens file no.yaml: No such file"),
        ("serve F --host nobody.invalid --tokens TOKENS", "cannot listen on nobody.invalid, port 8321"),
        ("mobility build --towers no.csv --gtfs no --out F", "--towers no.csv: there is no such file"),
        ("demo --real-data no", "--real-data no has no base_stations_berlin_ring.csv"),
        ("explain no.sql --topology PAGE", "not YAML"),
        ("explain no.sql --topology GROUND --streams STREAMS", "'no.sql' is neither SQL nor a file with SQL"),
        ("explain - --topology GROUND --sink wes", "which is not a site; did you mean 'west'?"),
        ("up PAGE", "not YAML"),
        ("up no.yaml", "cannot read no.yaml: No such file"),
        ("plan PAGE", "not YAML"),
        ("place PAGE", "not YAML"),
        ("token a --role read --device t1", "--role feed"),
        ("export PLAIN F", "there is no fleet in"),
        ("history PLAIN", "is not a fleet's folder"),
        ("status PLAIN", "is not a fleet's folder"),
        ("results busy --follow", "come from a server"),
        ("region --name a --store F --memory huge", "--memory: 'huge' is no size of Java's heap; write it like 512m"),
        ("region --name a --store F --host nobody.invalid", "cannot listen on nobody.invalid, port 0: Name or"),
        ("region --name a --store F --host 0.0.0.0", "0.0.0.0 is every address of this machine; add --advertise HOST"),
        ("coordinator --store F --advertise a:b", "--advertise 'a:b' is no address; write HOST or HOST:PORT"),
        ("mobility build --towers PAGE --gtfs PAGE --memory huge --out F", "--memory: 'huge' is no size"),
        ("export nats://u:p@127.0.0.1:1/a F", "only a fleet in a folder can be exported; nats://127.0.0.1:1/a lies on"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_spark: None, command: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GODWIT_FLEET_TOKEN", "of this test's fleet only")
    (tmp_path / "page.md").write_text(NOT_YAML)
    (tmp_path / "tokens.yaml").write_text(f"tokens: [{{name: a, role: read, sha256: {digest_of('x')}}}]")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file").touch()
    (tmp_path / "ground.yaml").write_text("sites: [{id: west}]\n")
    (tmp_path / "streams.yaml").write_text("streams: [{name: s, schema: 'a string, ts timestamp'}]\n")
    named = {
        "GROUND": "ground.yaml",
        "STREAMS": "streams.yaml",
        "F": "fleet",
        "PAGE": "page.md",
        "TOKENS": "tokens.yaml",
        "PLAIN": "plain",
    }
    result = call(*(named.get(word, word) for word in command.split()))
    assert result.exit_code in (1, 2), result.output
    said = [line for line in result.output.splitlines() if line.startswith("error: ")]
    assert len(said) == 1, result.output
    assert words in said[0]
    assert not (tmp_path / "fleet").exists()
    assert [file.name for file in (tmp_path / "plain").iterdir()] == ["file"]


def test_a_port_in_use_is_said_before_spark_starts(call: Call, tmp_path: Path, no_spark: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = call("serve", tmp_path / "fleet", "--port", port)
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use; give another --port" in result.output


def test_a_folder_in_use_is_said_before_spark_starts(call: Call, tmp_path: Path, no_spark: None) -> None:
    script = "import sys\nfrom godwit.storage.lock import FolderLock\nlock = FolderLock(sys.argv[1])\nlock.take()\n"
    command = [sys.executable, "-c", script + "print('taken', flush=True)\ninput()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "taken\n"
        result = call("serve", tmp_path, "--port", "0")
        other.communicate("\n")
    assert result.exit_code == 1
    assert f"is in use by process {other.pid}" in result.output


def test_the_line_of_a_token_can_be_read_whatever_its_name_is(call: Call, tmp_path: Path) -> None:
    printed = call("token", "a: b, {}", "--role", "feed", "--device", "t: 1", "--stream", "x, y")
    lines = printed.stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("  - ")]
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens:\n{line}\n")
    secret = printed.output.partition("token (keep it secret): ")[2].split()[0]
    caller = load_tokens(file, {}).caller(secret)
    assert caller is not None
    assert (caller.name, caller.device, caller.streams) == ("a: b, {}", "t: 1", ("x, y",))


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("place", SEARCHES),
        ("explain", {**RULES, **REDEPLOYMENTS, **STATES}),
        ("coordinator", {**RULES, **STATES}),
        ("migrate", KEY_STRATEGIES),
        ("replan", PLAN_STRATEGIES),
    ],
)
def test_help_names_every_strategy(call: Call, command: str, names: Mapping[str, object]) -> None:
    told = "".join(call(command, "--help").stdout.split())  # (lines are broken at hyphens, too)
    assert [name for name in names if name not in told] == []


def test_sql_is_given_as_it_stands_or_in_a_file_with_any_name(call: Call, tmp_path: Path) -> None:
    (tmp_path / "ground.yaml").write_text("sites: [{id: west}]\n")
    (tmp_path / "streams.yaml").write_text("streams: [{name: s, schema: 'a string, ts timestamp'}]\n")
    (tmp_path / "my query.sql").write_text("SELECT a FROM s\n")
    for given in ("SELECT a FROM s", tmp_path / "my query.sql"):
        told = call("explain", given, "--topology", tmp_path / "ground.yaml")
        assert "Scan s" in told.stdout, told.output
