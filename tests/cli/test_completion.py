"""Shell completion: names of commands, without importing them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("se", {"serve"}), ("re", {"replan", "replace", "results", "region"}), ("serve --pro", {"--processes"})],
)
def test_a_shell_is_offered_the_commands(typed: str, offered: set[str]) -> None:
    told = {
        "COMP_WORDS": f"godwit {typed}",
        "COMP_CWORD": str(typed.count(" ") + 1),
        "_GODWIT_COMPLETE": "complete_bash",
    }
    program = "from godwit.cli.main import run; run()"
    found = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **told}, capture_output=True, text=True, check=False
    )
    assert set(found.stdout.split()) == offered
