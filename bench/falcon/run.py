"""Runs the cells of a figure one after the other in one Spark session, and keeps each result as soon as it is there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from bench._harness import RESULTS, save
from bench.falcon.play import play
from bench.falcon.sending import Cell, Cut

OUT = RESULTS / "falcon"
#: figures that are made of cells, and those that are measured in a way of their own
CELLS = ("fig8", "fig10", "fig11", "fig12", "fig13", "fig14")
OWN = ("fig9", "migration_rate", "routing", "many_totals")
FIGURES = ("fig8", "fig9", *CELLS[1:], *OWN[1:])


def module(figure: str) -> ModuleType:
    return importlib.import_module(f"bench.falcon.{figure}")


def warm() -> None:
    """The first cell of all must not pay for a cold Java."""
    play(Cell("warm-up", "tm", "", ("falcon", "full-restart")), Cut(warm_s=2.0, calm_s=0.5, rounds=1, rate=300.0))


def run(figure: str, cut: Cut, short: bool, only: tuple[str, ...] = (), out: Path | None = OUT) -> list[dict[str, Any]]:
    """All cells of a figure (of some workloads only). `out` None: keep nothing."""
    known = module(figure)
    if figure in OWN:
        found = known.run(cut, short)
        _keep(figure, found, out)
        return found
    found = []
    for cell in known.cells(short):
        if only and cell.workload not in only:
            continue
        asked = known.question(cell) if hasattr(known, "question") else None
        ready = (lambda fleet, q, c=cell: known.prepare(fleet, q, c)) if hasattr(known, "prepare") else None
        more = known.more if hasattr(known, "more") else lambda one: {}
        found += [{**one, **more(one)} for one in play(cell, cut, asked, ready)]
        _keep(figure, found, out)
    return found


def _keep(figure: str, found: list[dict[str, Any]], out: Path | None) -> None:
    """Beside what an earlier run has of other cells."""
    if out is not None:
        known = {_name(one): one for one in kept(figure)} if out == OUT else {}
        save(out / f"{figure}.json", list({**known, **{_name(one): one for one in found}}.values()))


def _name(one: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(one["cell"].get(part) for part in ("workload", "x", "strategy"))


def kept(figure: str) -> list[dict[str, Any]]:
    path = OUT / f"{figure}.json"
    return json.loads(path.read_text()) if path.exists() else []
