"""Scenario files: what is accepted, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from godwit.errors import ConfigError
from godwit.scenario.spec import columns, load_scenario

FIXTURES = Path(__file__).parent.parent / "fixtures" / "scenarios"
GOOD = [path for path in sorted((FIXTURES / "good").glob("*.yaml")) if "topology" not in path.name]
BAD = sorted((FIXTURES / "bad").glob("*.yaml"))


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.values()
    assert all(scenario.text_of(query) for query in scenario.queries)
    assert (scenario.ground() is None) == (scenario.world is not None)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad(path: Path) -> None:
    """Every `# expect:` line of the file is part of the one message, which also names the file."""
    lines = path.read_text().splitlines()
    wanted = [line.removeprefix("# expect: ") for line in lines if line.startswith("# expect: ")]
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    assert str(path) in str(caught.value)
    for words in wanted:
        assert words in str(caught.value)
    assert wanted, "say what is expected"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.yaml"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_schemas_are_read_as_spark_reads_them() -> None:
    """Without Spark, but to the same names and types."""
    found = columns("a int, b bigint, c decimal(10, 2), d array<struct<x: int, y: string>>, ts timestamp")
    assert [(c.name, c.type) for c in found] == [
        ("a", "int"),
        ("b", "bigint"),
        ("c", "decimal(10,2)"),
        ("d", "array<struct<x:int,y:string>>"),
        ("ts", "timestamp"),
    ]
