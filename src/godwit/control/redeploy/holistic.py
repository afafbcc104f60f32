"""Holistic redeployment, the paper's baselines: affected queries are undeployed, placed again as a whole, and deployed.

Serial (HSQD) does it for one query after the other; concurrent (HCQD) for all affected queries together. Queries that
share an instance that must move go together in both.
"""

from __future__ import annotations

from collections.abc import Iterable

from godwit.control.plan_state import Planner
from godwit.control.redeploy.strategy import ChangeBatch, ground_first, newcomers_last
from godwit.control.stage import Stage
from godwit.control.stage_builder import finish
from godwit.ids import QueryId
from godwit.model.global_plan import Edge
from godwit.model.instances import InstanceId
from godwit.protocol.watermarks import epoch_of, session_of

REDEPLOYING = "it is being redeployed"


def serial(planner: Planner, batch: ChangeBatch) -> list[Stage]:
    return _holistic(planner, batch, one_by_one=True)


def concurrent(planner: Planner, batch: ChangeBatch) -> list[Stage]:
    return _holistic(planner, batch, one_by_one=False)


def _holistic(planner: Planner, batch: ChangeBatch, one_by_one: bool) -> list[Stage]:
    mark = planner.journal.mark()
    todo, broken = ground_first(planner, batch)
    groups = _groups(planner, todo, broken)
    if not one_by_one:
        groups = [sorted(query for group in groups for query in group)] if groups else []
    stages = []
    for group in groups:
        for query in group:
            planner.park(query, REDEPLOYING)
        stages.append(finish(planner, mark, f"stop {', '.join(group)}: {batch.cause}"))
        mark = planner.journal.mark()
        for query in group:
            planner.try_place(query)
        stages.append(finish(planner, mark, f"deploy {', '.join(group)}: {batch.cause}"))
        mark = planner.journal.mark()
    stages = [stage for stage in stages if not stage.empty]
    # Versions begin and end at the epoch of their own stage.
    planner.session = session_of(epoch_of(planner.session) + len(stages))
    newcomers_last(planner, batch.requests)
    last = finish(planner, mark, batch.cause)
    return [*stages, last] if not last.empty or not stages else stages


def _groups(planner: Planner, todo: Iterable[InstanceId], broken: Iterable[Edge]) -> list[list[QueryId]]:
    """The affected queries that are not parked already; those with a moving instance in common together."""
    groups: list[set[QueryId]] = []
    for instance in {*todo, *(consumer for _, consumer in broken)}:
        users = {q for q in planner.plan.users(instance) if not planner.has_no_place(q)}
        touching = [group for group in groups if group & users]
        groups = [group for group in groups if not group & users]
        if users or touching:
            groups.append(users.union(*touching))
    return sorted(sorted(group) for group in groups)
