"""The whole demo, small: the fleet's results are the oracle's, state moves at hand-overs, pictures are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from godwit.demo.outcome import DemoOutcome
from godwit.demo.show import DemoOptions, show
from godwit.demo.world import Setting


def _is_whole(ours: DemoOutcome, pictures: Path) -> None:
    assert all(verdict.equal for verdict in ours.verdicts), [str(v) for v in ours.verdicts if not v.equal]
    assert ours.rows > 0
    assert ours.moves, "no hand-over took an instance to another region"
    assert sum(move.bytes > 0 for move in ours.moves) > len(ours.moves) / 2
    assert ours.answers
    for answer in ours.answers:
        assert answer.added >= 0, f"answered before it can be known: {answer}"
        assert abs(answer.waits + answer.added - answer.latency) < 0.01
    for name in ("latency.png", "reconfigurations.png"):
        assert (pictures / name).read_bytes().startswith(b"\x89PNG")


def test_state_moves_at_hand_overs_and_the_oracle_agrees(spark: SparkSession, tmp_path: Path) -> None:
    console = Console(width=160, color_system=None, record=True)
    setting = Setting(trains=4, seconds=12, calm_s=4)
    (ours,) = show(DemoOptions(setting, native=False, folder=tmp_path, plots=tmp_path / "png"), console)
    _is_whole(ours, tmp_path / "png")
    said = console.export_text()
    for words in ("8 of 8 queries equal", "the query must wait for", "added", "state moved", str(tmp_path / "png")):
        assert words in said


@pytest.mark.full
def test_both_contenders_on_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    console = Console(width=160, color_system=None, record=True)
    ours, native = show(DemoOptions(Setting(seconds=15, calm_s=4), folder=tmp_path), console)
    _is_whole(ours, tmp_path)
    assert ours.rows == native.rows
    assert len(ours.handovers) == len(native.handovers) > 0
    assert native.handled <= len(native.handovers)
    assert native.answers
    assert not native.moves
    said = console.export_text()
    for words in ("native-restart", "12 of 12 queries equal", "hand-overs handled in time", "query restarts"):
        assert words in said
