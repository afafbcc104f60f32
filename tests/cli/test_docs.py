"""The documentation can be built as a site, and what it shows of files and Python holds together."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from godwit.placement.problem.files import read_problem
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


def fenced(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOWTO / name).read_text(), flags=re.DOTALL)


#: fenced Python of a how-to that runs by itself -> what must hold of its names, as its comments say
RUN = {
    "build_a_trace.md": """
        assert repr(played.trace.events[0]) in TEXT
        assert repr(played.topology.regions) in TEXT
        assert counts.num_rows > 0
    """,
    "reoptimise.md": "assert fleet.reoptimise.rows_per_unit == 50_000",
}


@pytest.mark.parametrize("name", RUN)
def test_python_in_how_tos_runs(name: str) -> None:
    """Of a fleet, only what is passed to it is looked at: it would start Spark."""
    fleet = SimpleNamespace(embedded=lambda folder, **options: SimpleNamespace(**options))
    names: dict[str, object] = {"Fleet": fleet, "TEXT": (HOWTO / name).read_text()}
    (block,) = fenced(name, "python")
    exec(compile(block, name, "exec"), names)
    exec(textwrap.dedent(RUN[name]), names)


#: signatures that an extension must have: (the how-to, where the like of it is defined)
SIGNATURES = {
    "add_a_placement_algorithm.md": "godwit.placement.search.esc",
    "add_a_placement_rule.md": "godwit.placement.rules.bottom_up",
    "add_a_migration_strategy.md": "godwit.migration.transfer",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_in_how_tos_are_those_of_the_code(name: str) -> None:
    (shown,) = ast.parse(fenced(name, "python")[0]).body
    assert isinstance(shown, ast.FunctionDef)
    source = Path(str(import_module(SIGNATURES[name]).__file__)).read_text()
    real = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == shown.name)
    assert ast.unparse(shown.args) == ast.unparse(real.args)
    assert ast.unparse(shown.returns) == ast.unparse(real.returns)  # type: ignore[arg-type]


def test_files_in_how_tos_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "problem.yaml"
    file.write_text(fenced("add_a_placement_algorithm.md", "yaml")[0])
    assert len(read_problem(file).workflow.operators) == 3
    for needed in ("calls.jsonl", "trace.jsonl"):
        (tmp_path / needed).touch()
    file.write_text(fenced("write_a_scenario.md", "yaml")[0])
    assert load_scenario(file).queries[0].name == "occupancy"


def test_every_table_has_a_head() -> None:
    """Rows behind an empty line are no table any more: they are shown as text with bars."""
    wrong = []
    for file in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for rows in re.findall(r"(?:^\|.*\n?)+", file.read_text(), flags=re.MULTILINE):
            lines = rows.splitlines()
            if len(lines) < 2 or not re.fullmatch(r"\|[-:| ]+\|", lines[1]):
                wrong.append(f"{file.name}: {lines[0][:60]}")
    assert wrong == []
