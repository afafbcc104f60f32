"""Lines of source and of tests, as `wc -l` counts them; those of the source by kind."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from bench._harness import ROOT

#: `wc -l` over the Python files of commit 75f46ee
SOURCE_BEFORE, TESTS_BEFORE = 35_256, 9_430
#: the lines of that commit's source, counted by `kinds`
KINDS_BEFORE = {"code": 22_463, "imports": 2_670, "docstrings": 3_261, "comments": 776, "blank": 6_094}


def lines() -> dict[str, int]:
    source = kinds(ROOT / "src/godwit")
    return {"source": sum(source.values()), "tests": sum(kinds(ROOT / "tests").values()), **source}


def kinds(folder: Path) -> dict[str, int]:
    """How many lines of each kind the Python files below a folder have."""
    found = Counter[str]()
    for file in folder.rglob("*.py"):
        found += _kinds(file.read_text())
    return {kind: found[kind] for kind in KINDS_BEFORE}


def _kinds(text: str) -> Counter[str]:
    owner = dict[int, str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            owner |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), "imports")
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            owner |= dict.fromkeys(range(first.lineno, (first.end_lineno or 0) + 1), "docstrings")
    return Counter(owner.get(number) or _kind(line) for number, line in enumerate(text.splitlines(), start=1))


def _kind(line: str) -> str:
    stripped = line.strip()
    return "blank" if not stripped else "comments" if stripped.startswith("#") else "code"
