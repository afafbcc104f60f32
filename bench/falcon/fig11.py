"""Figure 11: 1 to 32 edges. Keys of the others are at them already; a subset moves to the last one (TM)."""

from __future__ import annotations

from bench.falcon.ground import edge
from bench.falcon.questions import Question
from bench.falcon.sending import Cell
from godwit.api.fleet import Fleet

TITLE = "Figure 11: number of edges"
VARIES = "edges"
STRATEGIES = ("falcon", "hot-backup", "on-demand", "partial-pause", "full-restart")
#: enough for an instance at each edge, and for as many that move
KEYS = 64


def cells(short: bool) -> list[Cell]:
    edges = (1, 4, 16) if short else (1, 2, 4, 8, 16, 32)
    strategies = ("falcon", "partial-pause") if short else STRATEGIES
    return [Cell("fig11", "tm", n, strategies, edges=n, keys=KEYS) for n in edges]


def prepare(fleet: Fleet, asked: Question, cell: Cell) -> None:
    """An instance at each edge but the last: of the keys that do not move, one each."""
    stay = asked.keys[1::2]
    for number in range(cell.edges - 1):
        query, operator = asked.operators(fleet)[0]
        fleet.migrate(query, keys=[stay[number]], to=edge(number), operator=operator)
