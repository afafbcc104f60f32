"""Figure 8: every workload by every strategy; half of the keys move to a new instance at the edge, and back."""

from __future__ import annotations

from bench.falcon.play import NONE, Cell
from bench.falcon.questions import QUESTIONS
from godwit.migration.phases import AUTO, KEY_STRATEGIES

TITLE = "Figure 8: disruption and peak latency jitter, all workloads"
VARIES = "workload"


def cells(short: bool) -> list[Cell]:
    strategies = (NONE, AUTO, *KEY_STRATEGIES)
    return [Cell("fig8", workload, strategy, workload) for workload in QUESTIONS for strategy in strategies]
