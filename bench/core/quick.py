"""The headline figures of the core in under three minutes: one device move, commit records, leftovers, source lines."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.core import report
from bench.core.commit_record import commit_record
from bench.core.control_leftovers import control_leftovers
from bench.core.leftovers import leftovers
from bench.core.lines import lines
from godwit.engine.session import spark_session

SIZES = (100, 1000, 10_000)


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py."""
    yield from report.lines_figures(lines())
    if (moves := device_moves(SIZES, moves=20)) is not None:
        yield from report.move_figures(moves)
    spark = spark_session(app="godwit bench", cores=2)
    with tempfile.TemporaryDirectory() as folder:
        yield from report.record_figures(commit_record(spark, Path(folder) / "records", hops=30))
        yield from report.leftover_figures(leftovers(spark, Path(folder) / "leftovers", cycles=180, every=6))
    yield from report.leftover_figures(control_leftovers(cycles=400, every=50), "control_leftover")


def device_moves(sizes: tuple[int, ...], moves: int) -> dict[str, dict[str, float]] | None:
    """One device move end to end, by number of sites; None where bench/core/device_move.py is not there."""
    if importlib.util.find_spec("bench.core.device_move") is None:
        return None
    module = importlib.import_module("bench.core.device_move")
    return {str(sites): module.device_move(sites, moves=moves) for sites in sizes}
