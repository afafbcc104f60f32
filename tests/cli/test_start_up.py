"""A command that does little starts at once: what it does not need is not imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from godwit.cli.main import COMMANDS

#: each of them takes a tenth of a second to several
HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "networkx", "sqlglot", "scipy", "httpx", "rich", "yaml", "pydantic")


def imported(script: str) -> set[str]:
    """Which of the heavy packages a fresh Python has imported after a script."""
    more = f"\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", script + more], capture_output=True, text=True, check=True)
    return set(told.stdout.splitlines()[-1].split()) if told.stdout.strip() else set()


def test_the_help_of_a_command_needs_nothing_heavy() -> None:
    modules = sorted({module for module, _, _ in COMMANDS.values()} | {"remote", "main"})
    script = "".join(f"import godwit.cli.{module}\n" for module in modules)
    assert imported(script) == set()


@pytest.mark.parametrize(
    ("script", "allowed"),
    [
        ("from godwit.observe.status import Ledger", {"pyarrow", "numpy"}),
        ("from godwit.storage.command_log import CommandLog", {"pyarrow", "numpy"}),
        ("from godwit.client import RemoteFleet", {"httpx", "rich"}),
    ],
)
def test_what_simple_commands_stand_on(script: str, allowed: set[str], tmp_path: Path) -> None:
    assert imported(script) <= allowed
