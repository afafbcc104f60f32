"""What of a changed text goes on: cases are files in tests/fixtures/replace."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from godwit.errors import ConfigError
from godwit.replan.aligned import aligned
from godwit.replan.box import JoinBox, reordered
from godwit.replan.replacement import Replacement, replacement
from tests.replan.queries import FIXTURES, STREAMS, compiled, load
from tests.replan.test_box import connection, rows_of

__all__ = ["connection"]

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


NEAR = "BETWEEN {0}.ts - INTERVAL 2 SECONDS AND {0}.ts + INTERVAL 2 SECONDS"
THREE = (
    f"SELECT a.v, b.v AS bv, c.v AS cv, c.k2 FROM a JOIN b ON a.k = b.k AND b.ts {NEAR.format('a')} AND a.v > 0 "
    f"JOIN c ON c.k = b.k AND c.ts {NEAR.format('b')} AND c.v > a.v - 1"
)


def test_what_is_written_with_the_running_plan_says_the_same(connection: duckdb.DuckDBPyConnection) -> None:
    """Whatever order runs, and whatever columns it has besides."""
    new = compiled(THREE.replace("b.v AS bv, ", "").replace(", c.k2", "") + " WHERE b.v < 3")
    expected = rows_of(connection, new)
    assert len(expected) > 10
    old = compiled(THREE)
    for tree in JoinBox.of(old.shape.plan, STREAMS).orders():
        runs = reordered(old, tree, STREAMS)
        found = aligned(runs, new, STREAMS)
        assert rows_of(connection, found) == expected
        assert JoinBox.of(found.shape.plan, STREAMS).tree.same_order(tree)


def test_a_text_that_nobody_changed_goes_on_as_it_is() -> None:
    for path in sorted((CASES / "good").glob("*.yaml")):
        old = compiled(load(path)["sql"])
        found = replacement(old, compiled(load(path)["sql"]), STREAMS)
        assert found.new.identity == old.identity
        assert found.whole
