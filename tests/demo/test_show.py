"""The whole demo, small: both contenders on the same rows, and the fleet's results are the oracle's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from godwit.demo.show import DemoOptions, show
from godwit.demo.world import Setting


@pytest.mark.full
def test_the_demo_from_end_to_end(spark: SparkSession, tmp_path: Path) -> None:
    console = Console(width=160, color_system=None, record=True)
    setting = Setting(trains=6, seconds=8, calm_s=2, speedup=20)
    ours, native = show(DemoOptions(setting, folder=tmp_path), console)
    assert all(verdict.equal for verdict in ours.verdicts), [str(v) for v in ours.verdicts if not v.equal]
    assert ours.rows == native.rows > 0
    assert ours.handovers == native.handovers > 0
    assert native.handled <= native.handovers
    said = console.export_text()
    for words in ("native-restart", "oracle", "12 of 12 queries equal", "hand-overs handled in time"):
        assert words in said
