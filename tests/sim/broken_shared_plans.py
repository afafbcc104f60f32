"""Broken rules of plan changes of queries that share operators, or whose keys are divided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from godwit.control import plan_versions as control_versions
from godwit.migration.key_migrations import KeyMigrations
from godwit.replan import family
from godwit.sim import plan_versions as sim_versions
from godwit.sim.schedule import ChangePlan, MoveKeys, Schedule, SubmitQuery, draw_divided_plans, draw_shared_plans
from tests.sim.broken_plans import ROUND, _all_send

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


#: what is broken -> where, name, the broken rule, a schedule that sees it
BROKEN_SHARED: dict[str, tuple[Any, str, Any, Schedule]] = {
    "who parts takes rows from before its beginning": (
        sim_versions,
        "left_states",
        _of_everybody,
        draw_shared_plans(0),
    ),
    "rows that are inherited lose their class": (sim_versions, "dates_rows", _yes, draw_shared_plans(0)),
    "a version ends while somebody taps it": (control_versions, "_is_whole", _yes, draw_shared_plans(73)),
    "one region leaves its state for all": (control_versions, "_regions", _in_one_region, DIVIDED),
    "versions go over while keys migrate": (KeyMigrations, "migrates", _no, draw_divided_plans(17)),
}
