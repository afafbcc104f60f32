"""godwit.testing itself: scripts as values, topologies, rows, and the how-to's code as it is printed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from godwit.testing import DETACH, KILL, MOVE, PAUSE, SEND, Collected, Player, Script, assert_equal_to_oracle, readings
from godwit.testing.topologies import levels, line, ring, star, tree

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "test_your_queries.md"


def test_rows_are_sent_by_the_devices_they_name() -> None:
    rows = [{"device": "b", "v": 1}, {"device": "a", "v": 2}, {"device": "b", "v": 3}]
    script = Script([rows, PAUSE(), MOVE("a", "x")], stream="s")
    assert script.actions() == [
        SEND("b", [rows[0], rows[2]], "s"),
        SEND("a", [rows[1]], "s"),
        PAUSE(),
        MOVE("a", "x"),
    ]


def test_a_moment_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="moments: polled, staged, committed, published, cleaned"):
        KILL("tea time")


def test_topologies_have_the_links_they_are_named_for() -> None:
    assert (len(line(4).sites), len(line(4).links)) == (4, 3)
    assert (len(star(4).sites), len(star(4).links)) == (5, 4)
    assert (len(ring(4).sites), len(ring(4).links)) == (4, 4)
    assert (len(tree(2, 2).sites), len(tree(2, 2).links)) == (7, 6)
    assert {site.region for site in tree(2, 2).sites.values()} == {"root", "n1", "n2"}
    topology, edges = levels(100, 30)
    assert (len(topology.sites), len(topology.links), len(edges)) == (100, 99, 69)


def test_the_same_seed_gives_the_same_rows() -> None:
    drawn = [readings("d", 5, rng=Random(7), since=10, within=2) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != readings("d", 5, rng=Random(8), since=10, within=2)


class _Device:
    def __init__(self) -> None:
        self._buffer: list[str] = []
        self.site: str | None = "x"

    def attach(self, site: str) -> None:
        self.site = site

    def detach(self) -> None:
        self.site = None


class _Fleet:
    """Dies like a real one: out of process_available, at a moment."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self.at = at
        self.devices: dict[str, _Device] = {}

    def device(self, name: str) -> _Device:
        return self.devices.setdefault(name, _Device())

    def process_available(self) -> None:
        self.at("polled")
        self.at("staged")


def test_a_kill_abandons_the_fleet_and_devices_keep_their_buffers() -> None:
    player: Player[Any] = Player(_Fleet)
    first = player.fleet
    player.play([DETACH("d")])
    player.device("d")._buffer.append("row")
    player.play([KILL("staged")])
    assert player.fleet is not first
    assert player.device("d") is not first.devices["d"]
    assert player.device("d")._buffer == ["row"]
    player.play([PAUSE(), MOVE("d", "y")])  # the new one lives
    assert player.fleet.devices["d"].site == "y"


def test_collected_waits_for_rows_and_a_repeat_is_harmless() -> None:
    sink = Collected()

    def write(number: int) -> None:
        table = SimpleNamespace(to_pylist=lambda: [{"n": number}])
        sink.write(SimpleNamespace(scope="q.r", number=number, tables=lambda: [table]))  # type: ignore[arg-type]

    write(1)
    later = threading.Timer(0.05, write, [2])
    later.start()
    assert sink.wait_for(2, timeout=10) == [{"n": 1}, {"n": 2}]
    write(2)
    assert len(sink.rows) == 2
    with pytest.raises(AssertionError, match="2 of 3 rows"):
        sink.wait_for(3, timeout=0.01)


def test_a_verdict_that_differs_fails_with_its_words() -> None:
    good, bad = (SimpleNamespace(verdict=lambda equal=equal: SimpleNamespace(equal=equal)) for equal in (True, False))
    assert_equal_to_oracle(good)
    with pytest.raises(AssertionError, match="equal=False"):
        assert_equal_to_oracle(good, bad)


def test_the_how_to_runs_as_printed(spark: SparkSession, tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", HOWTO.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(compile(code[1], str(HOWTO), "exec"), names)
    names["test_a_hop_and_two_crashes_do_not_show"](tmp_path / "fleet")
