"""Figure 8: every workload by every strategy; half of the keys move to a new instance at the edge, and back.

`auto` is not played on its own: it is `delta` or `falcon`, as the operator declares.
"""

from __future__ import annotations

from bench.falcon.play import NONE
from bench.falcon.questions import QUESTIONS
from bench.falcon.sending import Cell
from godwit.migration.phases import KEY_STRATEGIES

TITLE = "Figure 8: disruption and peak latency jitter, all workloads"
VARIES = "workload"


def cells(short: bool) -> list[Cell]:
    return [Cell("fig8", workload, workload, (NONE, *KEY_STRATEGIES)) for workload in QUESTIONS]
