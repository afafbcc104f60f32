"""Broken rules of a change of plan, and for each a schedule that sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from godwit.model.plan import Join
from godwit.protocol import inputs
from godwit.protocol.handover import Migration
from godwit.protocol.ledger import MigrationLedger
from godwit.replan.change_progress import ChangeProgress
from godwit.sim import plan_versions as sim_versions
from godwit.sim import step as sim_step
from godwit.sim.schedule import ChangePlan, Deliver, Schedule, Send, Sight, SubmitQuery, Tick, draw_plans

_matching = sim_versions.matching


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _always_ready(self: MigrationLedger, markers: Any) -> list[Migration]:
    return list(self.outgoing)


def _nothing_computed(*of: Any) -> Any:
    return replace(_matching(*of), recompute=())


SIGHTS = [Tick(region, Sight()) for region in ("west", "east", "cloud")]
#: b and c are old, and a is new: the result is made of a state that is computed
COMPUTED = Schedule(
    0,
    "top-down",
    "incremental",
    (
        SubmitQuery("q0", "chain", 0),
        Send("d3", "right", ((25, 0, 1),)),
        Send("d2", "left", ((25, 0, 2),)),
        *(3 * [*SIGHTS, Deliver(9)]),
        ChangePlan("q0", "a JOIN (b JOIN c)", "moving-state"),
        *(3 * [*SIGHTS, Deliver(9)]),
        Send("d1", "left", ((26, 0, 3),)),
    ),
)

#: what is broken -> (where, name, the broken rule, a schedule that sees it)
BROKEN_PLANS: dict[str, tuple[Any, str, Any, Schedule]] = {
    "new rows meet new rows at the old root": (sim_step, "old_row", _yes, draw_plans(88)),
    "rows are purged by another time": (Join, "stays_us", property(lambda self: (0, 0)), draw_plans(156)),
    "state leaves before what comes is drained": (MigrationLedger, "ready", _always_ready, draw_plans(53)),
    "versions meet at no line in the source logs": (inputs, "_changes_plan", _no, draw_plans(53)),
    "the old version goes before its state is taken over": (ChangeProgress, "_taken_over", _yes, draw_plans(53)),
    "parallel track ends while old rows are left": (ChangeProgress, "_only_new_rows", _yes, draw_plans(95)),
    "missing states are not computed": (sim_versions, "matching", _nothing_computed, COMPUTED),
    "results of state that is still to come are not waited for": (MigrationLedger, "_holds_up", _no, draw_plans(171)),
    "state that moved in the epoch of the change stays": (
        Migration,
        "goes_before",
        property(lambda self: int(self.epoch)),
        draw_plans(53),
    ),
}
