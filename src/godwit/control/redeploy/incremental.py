"""Incremental redeployment (ISQD): re-place only what must move, and all affected queries together in one epoch."""

from __future__ import annotations

from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import ChangeBatch, ground_first, newcomers_last
from godwit.control.stage import Stage
from godwit.control.stage_builder import finish


def stages(planner: Planner, batch: ChangeBatch) -> list[Stage]:
    mark = planner.journal.mark()
    todo, broken = ground_first(planner, batch)
    planner.settle(todo, broken)
    newcomers_last(planner, batch.requests)
    return [finish(planner, mark, batch.cause)]
