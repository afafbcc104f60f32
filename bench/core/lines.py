"""Lines of source and of tests, blank ones and comments included, as `wc -l` counts them."""

from __future__ import annotations

from bench._harness import ROOT

#: commit 75f46ee
SOURCE_BEFORE, TESTS_BEFORE = 35_256, 9_430


def lines() -> dict[str, int]:
    return {"source": _count("src/godwit"), "tests": _count("tests")}


def _count(folder: str) -> int:
    return sum(file.read_bytes().count(b"\n") for file in (ROOT / folder).rglob("*.py"))
