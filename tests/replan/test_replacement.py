"""What of a changed text goes on: cases are files in tests/fixtures/replace."""

from __future__ import annotations

from pathlib import Path

import pytest

from godwit.errors import ConfigError
from godwit.replan.replacement import Replacement, replacement
from tests.replan.queries import FIXTURES, STREAMS, compiled, load

CASES = FIXTURES.parent / "replace"


def _told(found: Replacement, label: str) -> list[str]:
    lines = found.explained().splitlines()
    return [line.removeprefix(label).strip().split(": the running plan")[0] for line in lines if line.startswith(label)]


@pytest.mark.parametrize("path", sorted((CASES / "good").glob("*.yaml")), ids=lambda p: p.stem)
def test_good(path: Path) -> None:
    case = load(path)
    found = replacement(compiled(case["sql"]), compiled(case["new_sql"]), STREAMS)
    assert _told(found, "goes on:") == case["goes_on"]
    assert _told(found, "begins again:") == case["begins_again"]
    assert found.new.output == compiled(case["new_sql"]).output


@pytest.mark.parametrize("path", sorted((CASES / "bad").glob("*.yaml")), ids=lambda p: p.stem)
def test_bad(path: Path) -> None:
    case = load(path)
    with pytest.raises(ConfigError) as caught:
        replacement(compiled(case["sql"]), compiled(case["new_sql"]), STREAMS)
    problem, *rest = str(caught.value).split("\n  ")
    assert problem == case["problem"]
    assert rest[-1].startswith(f"remedy: {case['remedy']}")
