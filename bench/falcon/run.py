"""Runs the cells of a figure one after the other in one Spark session, and keeps each result as soon as it is there."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from bench._harness import RESULTS, save
from bench.falcon.play import Cell, Cut, play
from godwit.migration.phases import AUTO

OUT = RESULTS / "falcon"
#: figures that are made of cells, and those that are measured in a way of their own
CELLS = ("fig8", "fig10", "fig11", "fig12", "fig13", "fig14")
#: workloads that Java has seen
_played: set[str] = set()
OWN = ("fig9", "migration_rate", "routing", "many_totals")


def module(figure: str) -> ModuleType:
    return importlib.import_module(f"bench.falcon.{figure}")


def run(figure: str, cut: Cut, short: bool, only: tuple[str, ...] = (), out: Path | None = OUT) -> list[dict[str, Any]]:
    """All cells of a figure (of some workloads or strategies only). `out` None: keep nothing."""
    known = module(figure)
    if figure in OWN:
        _warm(Cell(figure, "tm", AUTO))
        found = known.run(cut, short)
    else:
        found = []
        for cell in known.cells(short):
            if only and not {cell.workload, cell.strategy} & set(only):
                continue
            _warm(cell)
            asked = known.question(cell) if hasattr(known, "question") else None
            ready = (lambda fleet, q, c=cell: known.prepare(fleet, q, c)) if hasattr(known, "prepare") else None
            one = play(cell, cut, asked, ready)
            found.append({**one, **(known.more(one) if hasattr(known, "more") else {})})
            if out is not None:
                _keep(figure, found, out)
    if out is not None:
        _keep(figure, found, out)
    return found


def _warm(cell: Cell) -> None:
    """The first cell of a workload must not pay for a cold Java: it is played for a moment, and forgotten."""
    if cell.workload not in _played:
        _played.add(cell.workload)
        play(replace(cell, figure="warm-up", strategy=AUTO, keys=None, edges=1), Cut(2.0, 1.0, 2, 2.0, 300.0))


def _keep(figure: str, found: list[dict[str, Any]], out: Path) -> None:
    """Beside what an earlier run has of other cells."""
    known = {_name(one): one for one in kept(figure)} if out == OUT else {}
    save(out / f"{figure}.json", list({**known, **{_name(one): one for one in found}}.values()))


def _name(one: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(one["cell"].get(part) for part in ("workload", "x", "strategy"))


def kept(figure: str) -> list[dict[str, Any]]:
    path = OUT / f"{figure}.json"
    return json.loads(path.read_text()) if path.exists() else []
