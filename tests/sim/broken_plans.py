"""Broken rules of a change of plan, and for each a schedule that sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from godwit.control.plan_state import Planner
from godwit.ids import QueryId
from godwit.model.plan import Join
from godwit.protocol import inputs
from godwit.protocol.handover import Migration
from godwit.protocol.ledger import MigrationLedger
from godwit.replan import ahead, change_progress
from godwit.replan.change_progress import ChangeProgress
from godwit.sim import plan_versions as sim_versions
from godwit.sim import step as sim_step
from godwit.sim.schedule import (
    Action,
    AdvancePlans,
    ChangePlan,
    Deliver,
    Lose,
    Move,
    MoveKeys,
    Schedule,
    Send,
    Sight,
    Squeeze,
    SubmitQuery,
    Tick,
    Timeout,
    draw_plans,
)

_matching = sim_versions.matching
_dead_before = MigrationLedger.dead_before


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> int:
    return 0


def _always_ready(self: MigrationLedger, markers: Any) -> list[Migration]:
    return list(self.outgoing)


def _nothing_computed(*of: Any) -> Any:
    return replace(_matching(*of), recompute=())


def _left_out(left: Any, right: Any, joined: Any, together: Any) -> Any:
    return together([], [])


def _new_with_new(left: Any, right: Any, joined: Any, together: Any) -> Any:
    return joined(left.since, right.since)


SIGHTS = [Tick(region, Sight()) for region in ("west", "east", "cloud")]
ROUND: list[Action] = [*SIGHTS, Deliver(9), AdvancePlans()]
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
        *(4 * ROUND),
        Send("d1", "left", ((26, 0, 3),)),
    ),
)


def _all_send(stream: str, at: int, key: int = 0) -> list[Action]:
    devices = ("d1", "d2") if stream == "left" else ("d2", "d3")
    return [*(Send(device, stream, ((at, key, 2),)) for device in devices), *(3 * ROUND)]


def _lagging(first: str, before: list[Action], strategy: str, after: list[Action]) -> Schedule:
    """Rows before a change to another order, and after it; the right one lies behind."""
    order = "(a JOIN b) JOIN c" if first != "(a JOIN b) JOIN c" else "a JOIN (b JOIN c)"
    begins = (SubmitQuery("q0", "chain", 0), *ROUND, ChangePlan("q0", first, "moving-state"), *(6 * ROUND))
    changes = (ChangePlan("q0", order, strategy), *(6 * ROUND))
    return Schedule(0, "top-down", "incremental", (*begins, *before, *changes, *after))


def _left(*times: int) -> list[Action]:
    return [action for at in times for action in _all_send("left", at)]


BEHIND = _all_send("right", 25)
#: of b, which lies behind, a row meets what the first join, of a and c, has let go when the change begins
LET_GO = {s: _lagging("(a JOIN c) JOIN b", _left(25, 100, 200), s, BEHIND) for s in ("moving-state", "background")}
#: the same, let go while the change waits for b
MEANWHILE = _lagging(
    "(a JOIN c) JOIN b",
    _left(21),
    "moving-state",
    [*_left(45, 100, 200), *_all_send("right", 40, 1), *_all_send("right", 45)],
)
#: a row of b is new, and meets old rows
OLD_ROWS = _lagging("(a JOIN b) JOIN c", _left(25), "parallel-track", BEHIND)
#: all clocks are past the old rows, which later ones still meet
SPANNING = _lagging(
    "(a JOIN b) JOIN c",
    [*_all_send("right", 22), *_left(25)],
    "parallel-track",
    [*_all_send("right", 26), *_left(26), *_all_send("right", 29), *_left(29), *_all_send("right", 30)],
)


NOW: list[Action] = [*SIGHTS, Deliver(9)]


def _meanwhile(*actions: Action) -> Schedule:
    """States are made of the rows at 25, and something happens before the switch."""
    begins = [SubmitQuery("q0", "chain", 0), *_all_send("left", 25), *_all_send("right", 25)]
    changes = [ChangePlan("q0", "a JOIN (b JOIN c)", "background"), *(4 * NOW), *actions, *(4 * NOW), *(4 * ROUND)]
    return Schedule(0, "top-down", "incremental", (*begins, *changes, *_all_send("left", 27)))


CAME_SINCE = _meanwhile(Send("d2", "left", ((26, 0, 4),)), Send("d3", "right", ((26, 0, 4),)))
#: the rows of which states were made go to another region, where they are not known as such
KEYS_WENT = _meanwhile(MoveKeys("q0", (0,), "a1", "delta"))


def _tick(region: str, peers: tuple[int, int], sources: int, control: bool) -> Tick:
    return Tick(region, Sight(peers, sources, control))


#: rows are under way to a version that has ended when it is stopped and placed again with the next one
STOPPED = Schedule(
    0,
    "nearest-common-ancestor",
    "holistic-concurrent",
    (
        SubmitQuery("q0", "chain", 0),
        ChangePlan("q0", "(a JOIN c) JOIN b", "parallel-track"),
        _tick("west", (1, 2), 0, False),
        _tick("cloud", (0, 1), 2, False),
        _tick("east", (1, 0), 0, True),
        Send("d2", "left", ((26, 1, 1), (24, 1, 2), (29, 1, 4))),
        Move("d3", "ha"),
        Deliver(3, reverse=True),
        _tick("west", (1, 0), 2, True),
        Send("d3", "right", ((31, 1, 1),)),
        _tick("west", (1, 1), 2, True),
        Timeout(),
    ),
)
#: the same when its site has no room for it any more
NO_ROOM = Schedule(
    0,
    "nearest-common-ancestor",
    "incremental",
    (
        SubmitQuery("q0", "counted_chain", 0),
        _tick("cloud", (0, 1), 2, True),
        Send("d1", "left", ((20, 1, 2), (23, 1, 3))),
        ChangePlan("q0", "a JOIN (b JOIN c)", "pause-drain-resume"),
        _tick("west", (0, 0), 0, True),
        _tick("east", (0, 2), 2, False),
        Lose("b1", failed=False),
        Send("d3", "right", ((21, 0, 0), (25, 1, 1))),
        Deliver(4),
        Squeeze("c", 1),
        _tick("west", (1, 0), 1, True),
        _tick("east", (2, 1), 1, False),
        _tick("east", (1, 0), 0, True),
        _tick("west", (2, 2), 2, False),
        _tick("cloud", (0, 2), 2, True),
    ),
)


def _ended_has_a_place(self: Planner, query: QueryId) -> bool:
    return query in self.rows.parked and query not in self.suspended


def _lets_go(self: MigrationLedger, operator: int, clocks: Any, now: Any) -> int:
    queries = {name: replace(query, successor=None) for name, query in now.queries.items()}
    return _dead_before(self, operator, clocks, replace(now, queries=queries))


#: what is broken -> (where, name, the broken rule, a schedule that sees it)
BROKEN_PLANS: dict[str, tuple[Any, str, Any, Schedule]] = {
    "new rows meet new rows at the old root": (sim_step, "old_row", _yes, draw_plans(88)),
    "rows are purged by another time": (Join, "stays_us", property(lambda self: (0, 0)), draw_plans(156)),
    "state leaves before what comes is drained": (MigrationLedger, "ready", _always_ready, draw_plans(0)),
    "versions meet at no line in the source logs": (inputs, "parts_plans", _no, draw_plans(1)),
    "the old version goes before its state is taken over": (ChangeProgress, "_taken_over", _yes, draw_plans(53)),
    "parallel track ends while old rows are left": (ChangeProgress, "_only_new_rows", _yes, OLD_ROWS),
    "results of parallel track are taken to span nothing": (change_progress, "reach_us", _nothing, SPANNING),
    "moving-state does not wait for a stream behind": (
        ChangeProgress,
        "_reaches_back",
        _yes,
        LET_GO["moving-state"],
    ),
    "background does not wait for a stream behind": (ChangeProgress, "_reaches_back", _yes, LET_GO["background"]),
    "joins let rows go while a stream behind is waited for": (MigrationLedger, "dead_before", _lets_go, MEANWHILE),
    "what came since states were made ahead is left out": (ahead, "came_since", _left_out, CAME_SINCE),
    "what came since meets only what came since": (ahead, "came_since", _new_with_new, CAME_SINCE),
    "what was made ahead of rows that are not known is taken": (
        sim_versions._Heir,
        "_is_of_use",
        _yes,
        KEYS_WENT,
    ),
    "missing states are not computed": (sim_versions, "matching", _nothing_computed, COMPUTED),
    "results of state that is still to come are not waited for": (MigrationLedger, "_holds_up", _no, draw_plans(171)),
    "a version that has ended is stopped and placed elsewhere": (
        Planner,
        "has_no_place",
        _ended_has_a_place,
        STOPPED,
    ),
    "a version that has ended moves for want of room": (Planner, "has_no_place", _ended_has_a_place, NO_ROOM),
    "state that moved in the epoch of the change stays": (
        Migration,
        "goes_before",
        property(lambda self: int(self.epoch)),
        draw_plans(53),
    ),
}
