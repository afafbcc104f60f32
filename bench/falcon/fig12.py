"""Figure 12: 10 kB to 100 MB of state per key (TM, each total with a text of that size), over links of 1 Gbit/s.

A total is one row that every micro-batch writes again, so ten keys of 1 MB are 10 MB per micro-batch; 10 and 100 MB per
key (1 GB per micro-batch) are left out on this machine: two cores, 2 GB for Spark.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bench.falcon.questions import QUESTIONS, Question
from bench.falcon.sending import Cell
from godwit.model.plan import Column

TITLE = "Figure 12: state per key"
VARIES = "bytes per key"
STRATEGIES = ("falcon", "hot-backup", "on-demand", "partial-pause", "full-restart")
SQL = """SELECT /*+ keep('forever') */ vehicle AS key, avg(speed) AS average, count(*) AS n, length(max(note)) AS noted
FROM speeds GROUP BY vehicle"""


def cells(short: bool) -> list[Cell]:
    sizes = (10_000, 100_000) if short else (10_000, 100_000, 1_000_000)
    strategies = ("falcon", "partial-pause") if short else STRATEGIES
    return [Cell("fig12", "tm", size, strategies, mbit=1000.0) for size in sizes]


def question(cell: Cell) -> Question:
    """Each vehicle's first row has a text; the later ones have none."""
    known, first = QUESTIONS["tm"], set[str]()
    plain = known.workload
    stream = replace(plain.streams[0], columns=(*plain.streams[0].columns, Column("note", "string")))
    rng = np.random.default_rng(0)

    def make(numbers: np.ndarray, at: np.ndarray, settings: Any) -> Any:
        made = plain.make(numbers, at, settings)
        notes = []
        for vehicle in made["speeds"]["vehicle"]:
            notes.append("" if vehicle in first else rng.bytes(int(cell.x) // 2).hex())
            first.add(vehicle)
        made["speeds"]["note"] = notes
        return made

    return replace(known, sql=SQL, workload=replace(plain, streams=(stream,), make=make))
