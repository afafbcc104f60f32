"""Incremental redeployment (ISQD): re-place only what must move, and all affected queries together in one epoch."""

from __future__ import annotations

from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import Batch, ground_first, newcomers_last
from godwit.control.stage import Stage


def stages(planner: Planner, batch: Batch) -> list[Stage]:
    mark = planner.journal.mark()
    todo, broken = ground_first(planner, batch)
    planner.settle(todo, broken)
    newcomers_last(planner, batch.requests)
    return [planner.finish(mark, batch.cause)]
