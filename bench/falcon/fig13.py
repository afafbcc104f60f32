"""Figure 13: 10 to 100,000 keys (TM), and count windows of 10 to 10,000 rows (NQ6).

In short, windows of 10 rows alone: at 500 rows/s a seller has three auctions a second, and a window of 1,000 rows would
close once in five minutes.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa

from bench.falcon.questions import QUESTIONS, Question, of_window
from bench.falcon.sending import Cell
from godwit.api.fleet import Fleet

TITLE = "Figure 13: number of keys (tm), rows per window (nq6)"
VARIES = "keys or rows per window"
STRATEGIES = ("falcon", "hot-backup", "on-demand", "partial-pause", "full-restart")


def cells(short: bool) -> list[Cell]:
    keys = (10, 1000) if short else (10, 100, 1000, 10_000, 100_000)
    rows = (10,) if short else (10, 100, 1000, 10_000)
    strategies = ("falcon", "partial-pause") if short else STRATEGIES
    return [
        *(Cell("fig13", "tm", n, strategies, keys=n) for n in keys),
        *(Cell("fig13", "nq6", n, strategies) for n in rows),
    ]


def question(cell: Cell) -> Question:
    return of_window(int(cell.x)) if cell.workload == "nq6" else replace(QUESTIONS["tm"], preloaded=1)


def prepare(fleet: Fleet, asked: Question, cell: Cell) -> None:
    """Every key has state when half of them go."""
    if asked.preloaded:
        now = dt.datetime.now(dt.UTC)
        columns = {"vehicle": asked.keys, "speed": [50.0] * len(asked.keys), "ts": [now] * len(asked.keys)}
        fleet.push("speeds", pa.table({"source": ["s0"] * len(asked.keys), **columns}))
        fleet.process_available()
