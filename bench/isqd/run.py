"""Runs cells one after the other in one Spark session, and keeps each result as soon as it is there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bench._harness import RESULTS, machine, save, say
from bench.isqd import native, play
from bench.isqd.cells import NATIVE, Cell
from bench.isqd.inputs import Cut, Stage, data, stage
from bench.isqd.workload import asked
from godwit.engine.session import QUICK, spark_session

OUT = RESULTS / "isqd" / "cells"
WARM = Cut(1.0, 2.0, 0.0)
#: kinds of queries that Java has seen, on a fleet and as plain Spark
_played: set[tuple[str, bool]] = set()


def run_cells(cells: Iterable[Cell], cut: Cut, rate: int | None = None, out: Path | None = OUT) -> list[dict[str, Any]]:
    """Every cell that has no result of the same cut and rate yet; all results. `out` None: keep nothing.

    `rate`: rows a second and source, if not as the cell says.
    """
    found = []
    for cell in cells:
        known = None if out is None else _known(out, cell, cut, rate or cell.rate)
        if known is None:
            known = run_cell(cell, cut, rate)
            if out is not None:
                save(out / f"{cell.name}.json", known)
        found.append(known)
    return found


def run_cell(cell: Cell, cut: Cut, rate: int | None = None) -> dict[str, Any]:
    """One cell, from an empty folder to the oracle's verdict; what fails says why."""
    cut, rate = Cut(cut.calm, cut.changes, cut.tail, cell.every), rate or cell.rate
    began, here = time.time(), machine()
    base = {"cell": asdict(cell), "cut": asdict(cut), "rate": rate, "machine": here}
    work = Path(mkdtemp(prefix="godwit-isqd-"))
    played = stage(data() / cell.folder, cut, work, ring=cell.ring)
    try:
        if (kind := (cell.kind, cell.strategy == NATIVE)) not in _played:
            # The first cell of a kind must not pay for a cold Java: it is played for a moment, and forgotten.
            _run(cell, stage(data() / cell.folder, WARM, work), WARM, rate, work)
            _played.add(kind)
        result = _run(cell, played, cut, rate, work)
    except Exception as error:
        result = {"failed": f"{type(error).__name__}: {error}"[:500], "oracle": "not asked"}
    known = {**base, "published": played.published, "devices": len(played.trace.devices), **result}
    known["took_s"] = round(time.time() - began, 1)
    say(line(known))
    return known


def _run(cell: Cell, played: Stage, cut: Cut, rate: int, work: Path) -> dict[str, Any]:
    # Plans are many and small, so they are interpreted; but Java compiles itself as well as it can: cells last minutes.
    spark = spark_session("godwit-isqd", cores=2, settings=QUICK)
    queries = asked(cell.kind, played.groups)
    if cell.strategy == NATIVE:
        return native.play(spark, work / "native", played, cut, queries, rate)
    return play.play(spark, work / "fleet", played, cut, queries, cell.strategy, rate)


def _known(out: Path, cell: Cell, cut: Cut, rate: int) -> dict[str, Any] | None:
    path = out / f"{cell.name}.json"
    if not path.exists():
        return None
    known: dict[str, Any] = json.loads(path.read_text())
    same = known["cut"] == asdict(Cut(cut.calm, cut.changes, cut.tail, cell.every)) and known["rate"] == rate
    return known if same and "failed" not in known else None


def line(known: dict[str, Any]) -> str:
    """One result for people."""
    cell = known["cell"]
    name = f"{cell['figure']} {cell['kind']} {cell['x']} {cell['strategy']}"
    if "failed" in known:
        return f"{name}: {known['failed']}"
    calm, moving = known["latency"]["calm"], known["latency"]["under_change"]
    return (
        f"{name}: {known['handled']}/{known['changes']} changes, aggregated {known['aggregated_s']} s, "
        f"latency {calm['mean_ms']} -> {moving['mean_ms']} ms, oracle {known['oracle']}, took {known['took_s']} s"
    )
