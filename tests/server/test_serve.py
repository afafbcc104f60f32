"""`godwit serve` as a process: it starts, answers, and ends cleanly; without tokens it stays on this machine."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from godwit.cli.main import app
from godwit.server.access import Access, load_tokens


@pytest.mark.timeout(120)
def test_a_served_fleet_answers_and_ends_cleanly(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text("sites: [{id: west, region: edge-west}]\n")
    command = [sys.executable, "-m", "godwit", "serve", f"{tmp_path}/fleet", "--port", "0", "--topology", str(topology)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = next(found[0] for line in process.stderr if (found := re.search(r"http://[\d.:]+", line)))
        assert httpx.get(f"{url}/v1/ready").json() == {"ready": True}
        assert [site["id"] for site in httpx.get(f"{url}/v1/topology").json()["sites"]] == ["west"]
        assert "<title>godwit</title>" in httpx.get(url).text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def test_without_tokens_it_does_not_listen_to_others(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["serve", str(tmp_path / "fleet"), "--host", "0.0.0.0"])
    assert told.exit_code == 1
    assert "--tokens" in told.output
    assert not (tmp_path / "fleet").exists()


def test_a_token_from_the_command_line_opens_the_door(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["token", "t1", "--role", "feed", "--device", "t1"])
    assert told.exit_code == 0
    secret, line = re.search(r"secret\): (\S+)", told.output), re.search(r"  - .*", told.output)
    assert secret
    assert line
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens:\n{line[0]}\n")
    access: Access = load_tokens(file, {})
    caller = access.caller(secret[1])
    assert caller is not None
    assert (caller.name, caller.role, caller.device) == ("t1", "feed", "t1")
