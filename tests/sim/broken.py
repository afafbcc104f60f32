"""Broken rules of the protocol, and for each a schedule that sees it: a simulator that does not is worth nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from godwit.ids import Epoch
from godwit.model.deployment import Deployment
from godwit.model.joins import OuterJoin
from godwit.model.plan import GENERATION, Aggregate, StateSpec
from godwit.model.routing import RouteTable
from godwit.protocol import delivery_order, gathering, outbox
from godwit.protocol import inputs as inputs_module
from godwit.protocol import kernel as kernel_module
from godwit.protocol.gathering import Gathering
from godwit.protocol.handover import EpochChange, Migration
from godwit.protocol.inputs import Inputs
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.ledger import MigrationLedger
from godwit.protocol.memory import MemoryDelta, Snapshot, difference
from godwit.protocol.session_order import SessionOrder
from godwit.protocol.watermarks import WatermarkTracker
from godwit.sim import over, running, top
from godwit.sim import region as sim_region
from godwit.sim import step as sim_step
from godwit.sim.outer import SimMeeting
from godwit.sim.running import SimRunning
from godwit.sim.schedule import (
    Action,
    Deliver,
    Move,
    MoveKeys,
    Schedule,
    Send,
    Sight,
    SubmitQuery,
    Tick,
    draw_keys,
    draw_ranked_keys,
)

_met, _together = sim_step.met, sim_step._Step._together
_hold_back = Inputs.hold_back
_apply, _publish = RegionKernel._apply, RegionKernel._publish
_run, _taken_in, _answers = running.run, over.taken_in, over.answers
_top, _top_taken_in, _counted = top.run, top.taken_in, top.counted
_ready, _admits = MigrationLedger.ready, MigrationLedger.admits


def _never_held(*_: Any) -> bool:
    return False


def _always_ready(self: MigrationLedger, markers: Any) -> list[Any]:
    return list(self.outgoing)


def _no_generations(*_: Any) -> int:
    return 0


def _follow_the_device(self: Deployment, query: Any, operator: int, device: Any, here: Any) -> Any:
    return self.routes(query, operator, device) or RouteTable.undivided(here)


def _one_session(self: WatermarkTracker, operator: int, source: str, mark: Any) -> None:
    self._marks[operator, source] = (mark,)


def _no_news(self: RegionKernel, inputs: Inputs[Any]) -> bool:
    _apply(self, inputs)
    return False


def _drained_at_once(self: MigrationLedger, regions: Any) -> dict[int, Epoch]:
    return dict.fromkeys(range(len(self.plan.operators)), self.epoch)


def _nothing(*_: Any) -> None:
    return None


def _delta_without(table: str) -> Callable[[Snapshot, Snapshot], MemoryDelta]:
    def shorter(before: Snapshot, after: Snapshot) -> MemoryDelta:
        found = difference(before, after)
        nothing: dict[str, Any] = {table: {}}
        return replace(found, changed=replace(found.changed, **nothing))

    return shorter


def _begin_at_zero(self: RegionKernel, before: Deployment, after: Deployment) -> None:
    for query in after.of_shape(self.shape.key):
        if query.id not in before.queries:
            self.start_positions[query.id] = {"source:": 0}


def _ends_unsaid(self: RegionKernel, everything: bool) -> Any:
    """Ends of sessions are forgotten before they are published."""
    self.own_marks = {key: mark for key, mark in self.own_marks.items() if not mark.over}
    return _publish(self, everything)


def _rows_only(members: Any, known: Any, addressed: Any, news: bool) -> Any:
    """A receiver without rows gets no message, though there is a marker for it."""
    return set(addressed)


def _no_copies(*_: Any) -> None:
    """Rows that are copies are processed, and what comes of them is emitted."""
    return


def _copies_at_once(self: MigrationLedger, markers: Any) -> list[Any]:
    """A copy of the state is sent without waiting for the marker."""
    return sorted({*_ready(self, markers), *(move for move in self.outgoing if move.copy)})


def _admitted_at_once(*_: Any) -> bool:
    """State is taken in, and the keys answered for, before the source has said that it is through."""
    return True


def _overtaking(self: MigrationLedger, move: Any, markers: Any, readers: Any) -> bool:
    """The source is through, but whoever reads the results may not have had the last of them."""
    return _admits(self, move, markers, ())


def _totals_by_generation(operator: SimRunning, state: list[Any], rows: Any) -> list[Any]:
    """Rows that came since a copy was opened are not added to those before: their generation is another."""
    made = []
    for row in rows:
        own = [s for s in state if s[GENERATION] == row[GENERATION]]
        made += _run(operator, own, [row])
        state.append(own[-1])
    return made


def _told_again(operator: Any, waiting: Any, kept: Any, came: Any, done: int, here: int, replayed: bool) -> Any:
    """What the source has answered since the copy is answered by the destination, too."""
    return _taken_in(operator, waiting, kept, came, -(2**62) if replayed else done, here, replayed)


def _everybody() -> tuple[Action, ...]:
    """All messages arrive, every region works, and so three times."""
    ticks = (Tick(region, Sight()) for region in ("west", "east", "cloud"))
    return (Deliver(9), *ticks, Deliver(9)) * 3


#: d1 moves from west to east while west has not read its last row; what east and cloud do meanwhile must wait for it
OVERTAKEN = Schedule(
    0,
    "bottom-up",
    "incremental",
    (
        SubmitQuery("q0", "both", 0),
        *_everybody(),
        Send("d2", "left", ((60, 0, 1),)),
        Send("d2", "right", ((60, 0, 1),)),
        Send("d3", "right", ((60, 0, 1),)),
        *_everybody(),
        Send("d1", "left", ((21, 0, 1),)),
        Move("d1", "b1"),
        Deliver(9),
        Send("d1", "left", ((70, 0, 1),)),
        *(Tick(region, Sight()) for region in ("east", "cloud", "east", "cloud")),
        *(Tick(region, Sight()) for region in ("west", "cloud", "cloud", "east", "west", "cloud")),
    ),
)

#: keys go from west to east, with rows of d2 coming from the cloud, where the results leave, too
_D2_IN_THE_CLOUD: tuple[Action, ...] = (
    SubmitQuery("q0", "running", 0),
    *_everybody(),
    Move("d2", "c"),
    *_everybody(),
    MoveKeys("q0", (0,), "a1", "partial-pause"),
    *_everybody() * 2,
    Send("d1", "left", ((21, 0, 1),)),
    *_everybody(),
)
#: west answers a row of d2 after it has said that it works under the new epoch; the cloud reads that answer last
ANSWERED_LATE = Schedule(
    0,
    "bottom-up",
    "incremental",
    (
        *_D2_IN_THE_CLOUD,
        Send("d2", "left", ((22, 0, 1),)),
        Tick("cloud", Sight()),
        MoveKeys("q0", (0,), "b1", "on-demand"),
        Tick("west", Sight(peers=(0, 2))),
        *(Tick(region, Sight()) for region in ("cloud", "east") * 3),
        Tick("west", Sight()),
        Send("d1", "left", ((23, 0, 1),)),
        Tick("west", Sight()),
        Tick("east", Sight()),
        Tick("east", Sight()),
        Tick("cloud", Sight(peers=(2, 0))),
        Deliver(9),  # the state may go
        Tick("west", Sight()),
        Tick("east", Sight()),
        Tick("cloud", Sight(peers=(2, 0))),  # (what it reads together it would sort by epoch)
        *_everybody(),
    ),
)


def _after_a_copy(strategy: str, rounds: int) -> Schedule:
    """The same where copies come first, and take so many rounds: then the switch is published."""
    work = tuple(Tick(region, Sight()) for region in ("west", "east", "cloud") * 2)
    return Schedule(
        0,
        "bottom-up",
        "incremental",
        (
            *_D2_IN_THE_CLOUD,
            MoveKeys("q0", (0,), "b1", strategy),
            *((*work, Deliver(9)) * rounds)[:-1],
            Send("d2", "left", ((22, 0, 1),)),
            Tick("cloud", Sight()),
            Deliver(9),
            Tick("west", Sight(peers=(0, 2))),
            *(Tick(region, Sight()) for region in ("cloud", "east") * 3),
            Tick("west", Sight()),
            Send("d1", "left", ((23, 0, 1),)),
            Tick("west", Sight()),
            Tick("east", Sight()),
            Tick("east", Sight()),
            Tick("cloud", Sight(peers=(2, 0))),
            *_everybody(),
        ),
    )


#: key 1 is in east, and key 0 goes there; west has not heard the cloud and keeps its state for now, while east's
#: watermark passes the end of a window of both keys
PASSED_BY = Schedule(
    0,
    "bottom-up",
    "incremental",
    (
        SubmitQuery("q0", "tumbling", 0),
        *_everybody(),
        Move("d2", "c"),
        *_everybody(),
        MoveKeys("q0", (0,), "a1", "partial-pause"),
        *_everybody() * 2,
        MoveKeys("q0", (1,), "b1", "partial-pause"),
        *_everybody() * 2,
        Send("d1", "left", ((21, 0, 1), (21, 1, 5))),
        *_everybody(),
        MoveKeys("q0", (0,), "b1", "delta"),
        *(Tick(region, Sight()) for region in ("west", "east", "cloud") * 2),
        Tick("west", Sight(peers=(0, 2))),
        *(Tick(region, Sight()) for region in ("cloud", "east") * 2),
        Send("d1", "left", ((22, 0, 2), (22, 1, 6), (45, 2, 1))),
        Send("d2", "left", ((45, 2, 1),)),
        Tick("west", Sight(peers=(0, 2))),
        *(Tick(region, Sight()) for region in ("cloud", "east") * 2),
    ),
)


#: what is broken -> (where, its name, the broken rule, a schedule that sees it: a seed, or written by hand)
def _one_generation(self: MigrationLedger, query: Any, operator: int, key: Any, generation: int) -> int:
    return generation


def _all_meet(*_: Any) -> int:
    return 0


def _any_key(self: MigrationLedger, query: Any, operator: int, key: Any, generation: int) -> int:
    mine = (move.goes_before for move in self.parting(operator) if move.query == query)
    return max((epoch for epoch in mine if epoch <= generation), default=0)


#: a row of the left is there when the copy is opened, its partner comes afterwards
COPIED_BETWEEN = Schedule(
    0,
    "top-down",
    "incremental",
    (
        SubmitQuery("q0", "joined", 0),
        Send("d1", "left", ((27, 2, 3),)),
        MoveKeys("q0", (2,), "b1", "falcon-oop"),
        Send("d3", "right", ((27, 2, 2),)),
    ),
)
#: the same while other keys of the source wait to be sent
COPIED_BESIDE = Schedule(
    0,
    "top-down",
    "holistic-concurrent",
    (
        SubmitQuery("q0", "joined", 0),
        Send("d3", "right", ((18, 0, 3), (18, 3, 1), (21, 0, 0))),
        MoveKeys("q0", ("buckets", 4, 23), "ha", "partial-pause"),
        MoveKeys("q0", (0, 3), "b1", "hot-backup"),
        Send("d2", "left", ((23, 3, 3),)),
    ),
)

BROKEN: dict[str, tuple[Any, str, Any, int | Schedule]] = {
    "state left behind": (EpochChange, "moves_of", lambda *_: [], 0),
    "clock not held": (MigrationLedger, "held", _never_held, 54),
    "rows meet those that have left": (MigrationLedger, "company", _all_meet, 4102),
    "sent early": (MigrationLedger, "ready", _always_ready, 1336),
    "sessions ignored": (WatermarkTracker, "hear", _one_session, OVERTAKEN),
    "rows follow": (Deployment, "route", _follow_the_device, OVERTAKEN),
    "news ignored": (RegionKernel, "_apply", _no_news, 0),
    "markers too early": (MigrationLedger, "markers", _drained_at_once, 725),
    "expected sources forgotten": (RegionKernel, "_expect", _nothing, OVERTAKEN),
    "start positions wrong": (RegionKernel, "_begin_queries", _begin_at_zero, 1),
    "delta drops the marks": (kernel_module, "difference", _delta_without("marks"), 455),
    "ends of sessions not published": (RegionKernel, "_publish", _ends_unsaid, 1),
    "markers without rows not sent": (outbox, "receivers", _rows_only, 0),
    "drained operators not published": (RegionKernel, "_must_publish", _never_held, 1),
}

#: the same for keys that migrate; the seeds are of `draw_keys`
BROKEN_KEYS: dict[str, tuple[Any, str, Any, int | Schedule]] = {
    "no emission filter": (MigrationLedger, "copied", _no_copies, 12),
    "no marker": (MigrationLedger, "ready", _copies_at_once, 342),
    "rows not kept apart": (MigrationLedger, "waits", MigrationLedger._strict, PASSED_BY),
    "replayed rows are told": (over, "taken_in", _told_again, 204),
    "no acknowledgement": (MigrationLedger, "admits", _admitted_at_once, ANSWERED_LATE),
    "results overtake": (MigrationLedger, "admits", _overtaking, ANSWERED_LATE),
    "generations without keys": (MigrationLedger, "owned_since", _no_generations, 0),
    "copied rows meet no others": (MigrationLedger, "company", _one_generation, COPIED_BETWEEN),
    "rows are parted by moves of other keys": (MigrationLedger, "company", _any_key, COPIED_BESIDE),
    "totals by generation": (running, "run", _totals_by_generation, 22),
    "clock not held": (MigrationLedger, "held", _never_held, 129),
    "watermark published while state is pending": (MigrationLedger, "pending", _never_held, 150),
}

#: what each strategy depends on: (strategy, what is broken) -> (where, its name, the broken rule, what sees it). Seeds
#: are of `draw_keys` with this strategy alone. While a query is stopped as a whole, no acknowledgement is waited for.
_FILTER = (MigrationLedger, "copied", _no_copies)
_COPIED_EARLY, _SENT_EARLY = (MigrationLedger, "ready", _copies_at_once), (MigrationLedger, "ready", _always_ready)
_UNACKNOWLEDGED = (MigrationLedger, "admits", _admitted_at_once)
BROKEN_STRATEGIES: dict[tuple[str, str], tuple[Any, str, Any, int | Schedule]] = {
    ("delta", "marker"): (*_SENT_EARLY, 18),
    ("falcon", "emission filter"): (*_FILTER, 0),
    ("falcon", "marker"): (*_COPIED_EARLY, 66),
    ("falcon", "acknowledgement"): (*_UNACKNOWLEDGED, _after_a_copy("falcon", 2)),
    ("falcon-oop", "emission filter"): (*_FILTER, 0),
    ("falcon-oop", "marker"): (*_COPIED_EARLY, 66),
    ("partial-pause", "marker"): (*_SENT_EARLY, 97),
    ("partial-pause", "acknowledgement"): (*_UNACKNOWLEDGED, ANSWERED_LATE),
    ("on-demand", "marker"): (*_SENT_EARLY, 18),
    ("on-demand", "acknowledgement"): (*_UNACKNOWLEDGED, ANSWERED_LATE),
    ("full-restart", "marker"): (*_SENT_EARLY, 456),
    ("hot-backup", "marker"): (*_COPIED_EARLY, 60),
    ("hot-backup", "acknowledgement"): (*_UNACKNOWLEDGED, _after_a_copy("hot-backup", 4)),
}


def only_by(strategy: str, told: int | Schedule) -> Schedule:
    """A schedule whose keys all migrate by one strategy; of those written by hand, the last migration."""
    schedule = draw_keys(told) if isinstance(told, int) else told
    last = [k for k, action in enumerate(schedule.actions) if isinstance(action, MoveKeys)][-1]
    every = isinstance(told, int)
    chosen = (
        replace(action, strategy=strategy) if isinstance(action, MoveKeys) and (every or k == last) else action
        for k, action in enumerate(schedule.actions)
    )
    return replace(schedule, actions=tuple(chosen))


def _meet_anew(node: OuterJoin, meetings: Any) -> Any:
    """A semi join that does not look at whom its rows have met before."""
    return _met(node, [SimMeeting(one.left, one.right) for one in meetings])


#: of outer, semi and anti joins; the seeds are those of `draw_outer`
BROKEN_OUTER: dict[str, tuple[Any, str, Any, int]] = {
    "a row comes out with every partner": (sim_step, "met", _meet_anew, 7),
    "partners are forgotten before the row is answered": (
        OuterJoin,
        "lasts_us",
        property(lambda join: join.inner.lasts_us),
        82,
    ),
}


def _marks_pass(self: Inputs[Any], waits: Any) -> Any:
    """Rows wait, but what their source says is believed: that its session is over, too."""
    found = _hold_back(self, waits)
    self.marks += found
    self.own_marks += found
    return found


#: of the order in which a device's rows come out; the seeds are those of `draw_passing`
BROKEN_ORDER: dict[str, tuple[Any, str, Any, int]] = {
    "no session waits for the one before": (SessionOrder, "waits", _never_held, 78),
    "readers hear the new region first": (SessionOrder, "tell", lambda *_: {}, 138),
    "a session is over while its rows wait": (Inputs, "hold_back", _marks_pass, 612),
    "a newcomer knows of no session before": (RegionKernel, "_expect_earlier", _nothing, 85),
    "delta drops what waits": (kernel_module, "difference", _delta_without("held"), 590),
    "delta drops what readers must hear first": (kernel_module, "difference", _delta_without("behind"), 2371),
}


_strict = MigrationLedger._strict


def _as_if_out(self: MigrationLedger, move: Migration) -> bool:
    return not move.sink and _strict(self, move)


#: of the order while sinks move; the seeds are those of `draw_moving_sinks`
BROKEN_SINKS: dict[str, tuple[Any, str, Any, int]] = {
    "the new region does not wait for the old one": (MigrationLedger, "behind", _nothing, 11),
    "rows that have crossed regions follow the sink": (sim_region, "ROUTED", "", 211),
    "the ways of two epochs are mixed": (sim_step, "in_turn", list, 3230),
    "a sink whose rows wait is drained": (MigrationLedger, "_strict", _as_if_out, 64),
    "rows that wait are never let out": (MigrationLedger, "drained_sinks", lambda *_: [], 0),
    "a sink reads the log of one region to its end": (delivery_order, "first_of_all", _nothing, 1),
}

#: of results that leave where their rows are; the seeds are those of `draw_scattered`
BROKEN_SCATTERED: dict[str, tuple[Any, str, Any, int]] = {
    "no session waits for the one before": (SessionOrder, "waits", _never_held, 5),
    "a sink reads the log of one region to its end": (delivery_order, "first_of_all", _nothing, 5),
    "a region reads rows of before its first query": (inputs_module, "begins_reading", _never_held, 3),
}


def _met_already(self: sim_step._Step, *those: Any) -> Any:
    """Rows that have waited are taken for rows that the source has seen."""
    found = _together(self, *those)
    return replace(found, parts=found.everything, waited={})


def _all_forgotten(self: MigrationLedger, released: Any) -> None:
    self.answered.clear()


#: west has told that (35, key 0) has no partner when it sends the key to east, whose watermark lies behind: it has not
#: heard the cloud of late
_TOLD_BEFORE: tuple[Action, ...] = (
    SubmitQuery("q0", "anti_join", 0),
    *_everybody(),
    Move("d2", "c"),
    *_everybody(),
    MoveKeys("q0", (0,), "a1", "partial-pause"),
    *_everybody() * 2,
    MoveKeys("q0", (1,), "b1", "partial-pause"),
    *_everybody() * 2,
    Send("d1", "left", ((35, 0, 1), (45, 2, 1))),
    *(Send(device, stream, ((45, 2, 1),)) for device, stream in (("d2", "left"), ("d2", "right"), ("d3", "right"))),
    Tick("east", Sight((0, 2))),
    *(Tick(region, Sight()) for region in ("cloud", "west", "west")),
    MoveKeys("q0", (0,), "b1", "delta"),
    Deliver(9),
    Tick("west", Sight()),
    Tick("cloud", Sight((0, 2))),
    *(Tick(region, Sight()) for region in ("east", "cloud", "west")),
    Tick("east", Sight((0, 2))),
)
#: and the key goes on to the cloud before east has caught up
TOLD_ON = Schedule(
    0,
    "bottom-up",
    "incremental",
    (*_TOLD_BEFORE, Deliver(9), MoveKeys("q0", (0,), "c", "delta"), Deliver(9), *_everybody()),
)
#: or east dies before it has
TOLD_AND_DIED = Schedule(
    0, "bottom-up", "incremental", (*_TOLD_BEFORE, Tick("east", Sight(), "polled"), Deliver(9), *_everybody())
)

#: of such joins whose keys migrate; the seeds are those of `draw_outer_keys`
BROKEN_OUTER_KEYS: dict[str, tuple[Any, str, Any, int | Schedule]] = {
    "nobody says how far rows are answered": (MigrationLedger, "told", _nothing, 17),
    "it is not said on": (MigrationLedger, "told_of", lambda *_: (), TOLD_ON),
    "it is forgotten at once": (MigrationLedger, "caught_up", _all_forgotten, TOLD_ON),
    "it is forgotten by a restart": (kernel_module, "difference", _delta_without("answered"), TOLD_AND_DIED),
    "what the watermark has passed is not answered": (sim_step._Step, "_passed", lambda *_: {}, 17),
    "rows that waited meet nobody": (sim_step._Step, "_together", _met_already, 0),
    "copied rows meet no others": (MigrationLedger, "company", _one_generation, 9),
    "rows are parted by moves of other keys": (MigrationLedger, "company", _any_key, 9),
}


def _told_by_time(operator: Any, waiting: Any, kept: Any, came: Any, done: int, here: int, replayed: bool) -> Any:
    """The source is taken to have answered the rows before its watermark: some of them wait for those behind them."""
    came = [row for row in came if replayed or row[operator.time] >= done]
    waiting.extend(row for row in came if row[operator.time] >= here)
    made = _answers(operator, [row for row in came if row[operator.time] < here], kept)
    return [row for row in made if row["ts"] >= done]


def _passed_by(operator: Any, waiting: Any, kept: Any, came: Any, done: int, here: int, replayed: bool) -> Any:
    """What the watermark has passed here, because of other keys, is taken to be answered."""
    return _taken_in(operator, waiting, kept, came, here, here, replayed)


def _kept_adds_up(operator: over.SimOver) -> tuple[StateSpec, ...]:
    """Of what was passed, a later copy has only what is new."""
    return tuple(StateSpec((operator.key,), operator.time) for _ in range(2))


def _in_one_batch(operator: Any, state: list[Any], came: Any) -> None:
    """Copied rows become state without being counted."""
    _top_taken_in(operator, state, [{top.SEEN: 0, **row} for row in came])


def _batches_counted(old: Any, fresh: list[Any]) -> int:
    return _counted(old, fresh[:1])


def _best_by_generation(operator: Any, state: list[Any], rows: Any) -> list[Any]:
    made = []
    for row in rows:
        own = [s for s in state if s[GENERATION] == row[GENERATION]]
        others = [s for s in state if s[GENERATION] != row[GENERATION]]
        made += _top(operator, own, [row])
        state[:] = [*others, *own]
    return made


#: while key 0 is copied its best row changes twice, each time in a micro-batch of its own, and once when it has gone
BETTER_AND_BETTER = Schedule(
    0,
    "bottom-up",
    "incremental",
    (
        SubmitQuery("q0", "top", 0),
        *_everybody(),
        Send("d1", "left", ((21, 0, 1),)),
        *_everybody(),
        MoveKeys("q0", (0,), "b1", "falcon"),
        *(Tick(region, Sight()) for region in ("west", "east", "cloud") * 3),
        *(
            action
            for at in (22, 23)
            for action in (
                Send("d1", "left", ((at, 0, at - 20),)),
                *(Tick(region, Sight()) for region in ("west", "cloud") * 2),
            )
        ),
        *_everybody() * 3,
        Send("d1", "left", ((25, 0, 4),)),
        *_everybody(),
    ),
)

#: of ranks and of window functions that look ahead, whose keys migrate: (where, its name, the broken rule, the strategy
#: and the seed of `ranked_by` that see it)
BROKEN_RANKED_KEYS: dict[str, tuple[Any, str, Any, str, int | Schedule]] = {
    "no emission filter": (MigrationLedger, "copied", _no_copies, "falcon", 12),
    "what is answered is seen in its time": (over, "taken_in", _told_by_time, "falcon", 1076),
    "replayed rows are told": (over, "taken_in", _told_again, "falcon", 12),
    "what the watermark has passed is not answered": (over, "taken_in", _passed_by, "delta", 0),
    "what was passed is copied in part": (over.SimOver, "state", property(_kept_adds_up), "hot-backup", 0),
    "micro-batches are counted, not rows": (top, "counted", _batches_counted, "falcon", BETTER_AND_BETTER),
    "copied rows are not counted": (top, "taken_in", _in_one_batch, "falcon", 459),
    "the best of each generation": (top, "run", _best_by_generation, "falcon", 5),
}


def ranked_by(strategy: str, told: int | Schedule) -> Schedule:
    """A schedule of ranks or window functions whose keys all migrate by one strategy."""
    schedule = draw_ranked_keys(told) if isinstance(told, int) else told
    actions = (replace(a, strategy=strategy) if isinstance(a, MoveKeys) else a for a in schedule.actions)
    return replace(schedule, actions=tuple(actions))


def _always(*_: Any) -> bool:
    return True


#: of rows that gather; the seeds are those of `draw_gathering`
BROKEN_GATHERING: dict[str, tuple[Any, str, Any, int]] = {
    "no window ends": (Aggregate, "may_answer", _never_held, 1),
    "the watermark here is not looked at": (Gathering, "_lets_go", _never_held, 0),
    "nobody elsewhere waits for our sources": (Gathering, "_lets_others_go", _never_held, 0),
    "messages bring nothing but marks": (Gathering, "_says_more", _never_held, 1),
    "all rows wait for a watermark": (gathering, "_held_above", _always, 0),
}
