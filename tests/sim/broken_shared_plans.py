"""Broken rules of plan changes of queries that share operators, or whose keys are divided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from godwit.control import plan_versions as control_versions
from godwit.migration.key_migrations import KeyMigrations
from godwit.model.plan import Query
from godwit.replan import family
from godwit.replan.change_progress import ChangeProgress, NextStep
from godwit.sim import plan_versions as sim_versions
from godwit.sim.schedule import (
    Action,
    AdvancePlans,
    ChangePlan,
    Deliver,
    MoveKeys,
    Schedule,
    Send,
    SubmitQuery,
    draw_divided_plans,
    draw_shared_plans,
)
from tests.sim.broken_plans import ROUND, SIGHTS, _all_send

_left_states = family.left_states


def _of_everybody(*of: Any) -> Any:
    return (replace(one, since=0) for one in _left_states(*of))


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _in_one_region(*_: Any) -> tuple[()]:
    return ()


#: key 0 of the first join is processed in another region when the plan changes, and meets later rows
DIVIDED = Schedule(
    0,
    "top-down",
    "incremental",
    (
        SubmitQuery("q0", "chain", 0),
        *(2 * ROUND),
        *_all_send("left", 25),
        *_all_send("right", 25),
        MoveKeys("q0", (0,), "a1", "delta"),
        *(6 * ROUND),
        ChangePlan("q0", "a JOIN (b JOIN c)", "background"),
        *(8 * ROUND),
        *_all_send("left", 26),
        *_all_send("right", 26),
        *(4 * ROUND),
    ),
)


def _everybody(at: int) -> list[Action]:
    """All devices send a row, and nobody has seen it yet."""
    feeds = (("d1", "left"), ("d2", "left"), ("d2", "right"), ("d3", "right"))
    return [Send(device, stream, ((at, 0, 1),)) for device, stream in feeds]


#: one of two that share changes its order; its state is there when the other one's region has yet to look for its own
APART = Schedule(
    0,
    "top-down",
    "incremental",
    (
        SubmitQuery("q0", "chain", 0),
        *ROUND,
        SubmitQuery("q1", "chain", 0),
        *(2 * ROUND),
        *_everybody(25),
        *(2 * ROUND),
        ChangePlan("q0", "a JOIN (b JOIN c)", "moving-state", alone=True),
        *ROUND,
        *SIGHTS,
        *SIGHTS[:2],
        Deliver(9),
        AdvancePlans(),
        *_everybody(26),
        *(2 * ROUND),
    ),
    shares=True,
)


_next = ChangeProgress.next


def _ends_alone(self: ChangeProgress, version: Query) -> NextStep | None:
    """One of those that shared operators ends without asking for the others."""
    step = self._own(version)
    return step if step is NextStep.RETIRE else _next(self, version)


#: what is broken -> where, name, the broken rule, a schedule that sees it
BROKEN_SHARED: dict[str, tuple[Any, str, Any, Schedule]] = {
    "who parts takes rows from before its beginning": (
        sim_versions,
        "left_states",
        _of_everybody,
        draw_shared_plans(0),
    ),
    "rows that are inherited lose their class": (sim_versions, "dates_rows", _yes, draw_shared_plans(0)),
    "versions that shared operators end one by one": (ChangeProgress, "next", _ends_alone, APART),
    "one region leaves its state for all": (control_versions, "_regions", _in_one_region, DIVIDED),
    "versions go over while keys migrate": (KeyMigrations, "migrates", _no, draw_divided_plans(17)),
}
