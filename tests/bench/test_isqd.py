"""The published redeployment experiments: their pattern, and short cuts of them on real Spark, oracle equal."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from bench.isqd import native, play
from bench.isqd.cells import CONCURRENT, NATIVE, OURS, SERIAL, all_cells
from bench.isqd.inputs import CLOUD, ROOT, Cut, data, movers, stage, updates
from bench.isqd.workload import asked
from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(not data().is_dir(), reason="the published ISQD inputs are not on this machine")

SHORT = Cut(calm=0.5, changes=2.0, tail=0.5)
#: a fifth of the published rows: tests share the machine
RATE = 20
STATELESS = "Stateless/Varying-Num-of-Total-Sources/2_src_1_change_per_query_120sec"
STATEFUL = "Stateful/Varying-Num-of-Total-Sources/2_src_2_change_per_query_120sec"


def test_what_is_made_follows_the_published_pattern() -> None:
    checked = 0
    for file in sorted(data().glob("*/*/*/topology_updates.json.gz")):
        published = json.loads(gzip.decompress(file.read_bytes()))
        groups = json.loads((file.parent / "source_groups.json").read_text())
        made = updates(groups, movers(file.parent.name), len(published["topology_updates"]))
        assert made["initial_parents"] == published["initial_parents"]
        for ours, theirs in zip(made["topology_updates"], published["topology_updates"], strict=True):
            assert ours["timestamp"] == theirs["timestamp"]
            assert sorted(map(str, ours["events"])) == sorted(map(str, theirs["events"])), file
        checked += 1
    assert checked > 30


def test_every_cell_has_a_stage(tmp_path: Path) -> None:
    """All sites reach the root, changes come when the cut says, and missing files are made."""
    made = 0
    for cell in all_cells():
        if cell.strategy != OURS:
            continue
        cut = Cut(2.0, 4.0, 1.0, cell.every)
        played = stage(data() / cell.folder, cut, tmp_path, ring=cell.ring)
        assert played.batches == round(cut.changes / cut.every)
        times = [event.t for event in played.trace.events if event.t > 0]
        assert min(times) == 2000
        assert max(times) < 6000
        assert len(played.groups) == 10
        assert all(played.topology.path(site, ROOT) for site in played.topology.sites)  # type: ignore[arg-type]
        assert set(played.topology.regions) == {CLOUD, "west", "east"}
        made += not played.published
    assert made >= 4


def test_a_published_cut_under_incremental(spark: SparkSession, tmp_path: Path) -> None:
    """Joins over moving sources: every change is handled, and the results are the batch's."""
    result = _fleet(spark, tmp_path, STATEFUL, OURS)
    assert result["oracle"] == "equal", result["verdicts"]
    assert result["changes"] == 2
    assert result["latency"]["results"] > 0
    assert 0 < result["placement_s"] < result["aggregated_s"]


@pytest.mark.full
@pytest.mark.parametrize("strategy", [SERIAL, CONCURRENT, NATIVE])
@pytest.mark.parametrize("folder", [STATELESS, STATEFUL])
def test_a_published_cut_under_the_others(spark: SparkSession, tmp_path: Path, folder: str, strategy: str) -> None:
    result = _fleet(spark, tmp_path, folder, strategy)
    assert result["oracle"] == "equal", result["verdicts"]
    assert result["latency"]["results"] > 0


def _fleet(spark: SparkSession, folder: Path, published: str, strategy: str) -> dict[str, Any]:
    played = stage(data() / published, SHORT, folder)
    queries = asked("stateless" if published == STATELESS else "stateful", played.groups)
    if strategy == NATIVE:
        return native.play(spark, folder / "native", played, SHORT, queries, RATE)
    return play.play(spark, folder / "fleet", played, SHORT, queries, strategy, RATE)
