"""Figure 14: bytes that hot backup moves against ours, by the number of edges and by the state per key.

What one migration moves is measured (`bytes`), and what refreshing a replica every 500 ms moves per second while
nothing migrates (`standing_bytes_per_s`). `kept_bytes` is that for a minute and a replica at every edge: the replica at
one edge is measured, and multiplied by the number of edges.
"""

from __future__ import annotations

from typing import Any

from bench.falcon import fig12
from bench.falcon.questions import Question
from bench.falcon.sending import Cell

TITLE = "Figure 14: bytes moved, hot backup against ours"
VARIES = "bytes per key, edges"
KEPT_S = 60
STRATEGIES = ("hot-backup", "falcon")


def cells(short: bool) -> list[Cell]:
    sizes = (10_000,) if short else (10_000, 100_000, 1_000_000)
    edges = (1, 4) if short else (1, 8, 32)
    by_size = [Cell("fig14", "tm", f"{size} B, 1 edge", STRATEGIES, mbit=1000.0) for size in sizes]
    return by_size + [Cell("fig14", "tm", f"32 B, {n} edges", STRATEGIES, edges=n) for n in edges]


def question(cell: Cell) -> Question | None:
    size, _, _ = str(cell.x).partition(" ")
    return fig12.question(Cell("fig12", "tm", int(size))) if int(size) > 32 else None


def more(known: dict[str, Any]) -> dict[str, Any]:
    """What a backup that is always there costs; the others move when they are asked to."""
    if known["cell"]["strategy"] != "hot-backup" or not known.get("moves"):
        return {"kept_bytes": known.get("bytes")}
    return {"kept_bytes": round(known["standing_bytes_per_s"] * KEPT_S * known["cell"]["edges"])}
