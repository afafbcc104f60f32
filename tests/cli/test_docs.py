"""The documentation can be built as a site, and what it shows of files and Python holds together."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from godwit.scenario.spec import load_scenario

ROOT = Path(__file__).parents[2]
HOWTO = ROOT / "docs" / "howto"


def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path / "site"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    index = (tmp_path / "site" / "index.html").read_text()
    assert "keep running while the ground under them moves" in index
    assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', index), "the site must work offline"


def blocks(file: Path) -> list[str]:
    """Indented blocks of code."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", file.read_text(), flags=re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in found]


def test_the_connectors_that_the_docs_show_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "x")
    shown = [block for block in blocks(HOWTO / "connect_other_systems.md") if block.startswith("streams:")]
    file = tmp_path / "fleet.yaml"
    file.write_text(shown[0])
    scenario = load_scenario(file, serving=True)
    assert scenario.queries[0].write_to.postgresql is not None
    assert "password=x" in scenario.queries[0].write_to.postgresql.dsn


@pytest.mark.parametrize("name", ["serve_a_fleet.md", "connect_other_systems.md"])
def test_python_in_the_docs_parses(name: str) -> None:
    shown = [block for block in blocks(HOWTO / name) if "fleet." in block and "godwit serve" not in block]
    assert shown
    for block in shown:
        if not block.startswith("streams:"):
            ast.parse(block)


def test_every_table_has_a_head() -> None:
    """Rows behind an empty line are no table any more: they are shown as text with bars."""
    wrong = []
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for rows in re.findall(r"(?:^\|.*\n?)+", file.read_text(), flags=re.MULTILINE):
            lines = rows.splitlines()
            if len(lines) < 2 or not re.fullmatch(r"\|[-:| ]+\|", lines[1]):
                wrong.append(f"{file.name}: {lines[0][:60]}")
    assert wrong == []
