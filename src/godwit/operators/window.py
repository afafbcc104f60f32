"""The window aggregate's part of a micro-batch: append partials, and merge only what closes.

A batch in which no window closes costs one append. Closing reads the segments that reach into the closing windows.
Sessions are different in one point: whether a partial is part of a finished session shows only when all its
neighbours are seen, so a batch in which a session may close rewrites the open ones.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from godwit.engine import lazy_frame as drafts
from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.engine.segments import rows_of
from godwit.ids import QueryId
from godwit.model.plan import GENERATION, QUERY, WINDOW_END, Aggregate
from godwit.operators.aggregate import merge, merge_sessions, results
from godwit.operators.deferred import can_defer
from godwit.protocol.watermarks import NEVER
from godwit.region.handover import arrivals, hand_over
from godwit.region.routing_tables import text
from godwit.region.state import State, any_before, union
from godwit.storage.log import Segment
from godwit.storage.overlays import by_query, edited, revised, simple

if TYPE_CHECKING:
    from godwit.region.step import Step

#: so many micro-batches later it is tried again whether grouping makes few of many rows
TRY_AGAIN = 32


def aggregate(step: Step, index: int, operator: Aggregate, partials: Frame | None) -> Frame | None:
    """Take in partials, hand over what moved away, and return the results of the windows that close."""
    state = step.memory.state(index)
    few = step.small_input(index) or _few_expected(state)
    fresh = None if partials is None else step.write(partials, f"state-{index}", WINDOW_END, small=few)
    if fresh is not None and index in step.deferred:
        fresh = edited(fresh, "select", *step.deferred[index], GENERATION)
    _learn(step, index, operator, fresh)
    closed = {q: _bound(c, operator) for q, c in step.memory.let_go.get(index, {}).items()}
    for segment in (fresh, *step.landed.get((index, 0), [])):
        state.append(_without_late(step, index, operator, segment, closed))
    for arrived in arrivals(step, index):
        state.live += [segment for part in arrived.parts.values() for segment in part]
    hand_over(step, index, [WINDOW_END])
    before, now = step.clocks(index)
    closed = {q: _bound(clock, operator) for q, clock in before.items()}
    closing = {q: _bound(clock, operator) for q, clock in now.items()}
    session = operator.window.kind == "session"
    made = (_close_sessions if session else _close)(step, index, operator, state, closed, closing)
    if not session:
        step.outputs.dead += state.drop_dead(step.memory.moves.dead_before(index, closing, step.tables.deployment))
        if crowd := state.crowded():
            few = rows_of(crowd) <= segments.SMALL_ROWS
            rewrite = partial(_compact, step, index, operator, few)
            state.compact(step.spark, crowd, rewrite)
            step.outputs.dead += crowd
    return made


def _learn(step: Step, index: int, operator: Aggregate, fresh: Segment | None) -> None:
    """Where a large batch's partials are nearly as many as its rows, the next batches are not grouped as they come."""
    deferring = step.memory.deferring
    if index in step.deferred:
        deferring[index] -= 1
    elif fresh is not None and not step.small and can_defer(operator):
        deferring[index] = TRY_AGAIN if fresh.rows > step.work.rows // 2 else 0


def _few_expected(state: State) -> bool:
    """However many rows come in, their partials are few where they were few before: a matter of the keys."""
    newest = state.live[-2:]
    return bool(newest) and max(segment.rows for segment in newest) <= segments.SMALL_ROWS // 4


def _bound(clock: int, operator: Aggregate) -> int:
    """Windows that end up to here are complete. A row exactly at a session's end would still be part of it.

    Other windows end only every slide: the bound is the last such end, so that queries whose clocks differ a little
    have the same, and nothing is looked for between two ends.
    """
    if clock == NEVER:
        return clock
    window, bound = operator.window, clock - operator.lag_us
    if window.kind == "session":
        return bound - 1
    return (bound - window.size_us) // window.slide_us * window.slide_us + window.size_us


def _compact(step: Step, index: int, operator: Aggregate, few: bool, frame: Frame) -> Segment | None:
    """Partials of one generation become one."""
    frame = frame.coalesce(1) if few else frame
    merged = drafts.then(("merge", operator), lambda rows: merge(rows, operator, by=(GENERATION,)), frame)
    return step.write(merged, f"compact-{index}", WINDOW_END, small=few)


def _close(
    step: Step, index: int, operator: Aggregate, state: State, closed: dict[QueryId, int], closing: dict[QueryId, int]
) -> Frame | None:
    """Results of the windows that end after `closed` and not after `closing`."""
    moving = {q: bound for q, bound in closing.items() if bound > closed[q]}
    if not moving:
        return None
    chosen = state.between(min(closed[q] for q in moving) + 1, max(moving.values()))
    due = _due(step, state, chosen, closed, closing)
    if due is None:
        return None
    due = step.tables.of_queries(due)
    step.sized[index] = rows_of(chosen) <= segments.SMALL_ROWS
    if step.sized[index]:
        due = due.coalesce(1)
    only = step.tables.only
    return drafts.then(
        ("results", operator, only), lambda rows: results(merge(rows, operator, only=only), operator), due
    )


def _due(
    step: Step, state: State, chosen: list[Segment], closed: dict[QueryId, int], closing: dict[QueryId, int]
) -> Frame | None:
    """Partials of the windows that close. Few are picked here: the bounds would make a new plan of every close."""

    def pick(table: pa.Table, segment: Segment) -> pa.Table:
        table = revised(table, segment)
        ends = segments.micros(table[WINDOW_END])
        after = pc.greater(ends, pc.fill_null(by_query(table, closed), 2**62))
        return table.filter(pc.and_(after, pc.less_equal(ends, pc.fill_null(by_query(table, closing), NEVER))))

    if all(map(simple, chosen)) and (few := segments.hand(step.spark, chosen, pick)) is not None:
        return few if few.rows else None
    frame = state.read(step.spark, chosen)
    if frame is None:
        return None
    frame = step.tables.per_query(frame, closed, "__closed", otherwise=2**62)
    frame = step.tables.per_query(frame, closing, "__closing", otherwise=NEVER)
    ends = f"unix_micros({WINDOW_END})"
    return frame.where(f"{ends} > __closed AND {ends} <= __closing").drop("__closed", "__closing")


def _close_sessions(
    step: Step, index: int, operator: Aggregate, state: State, closed: dict[QueryId, int], closing: dict[QueryId, int]
) -> Frame | None:
    moving = {q: bound for q, bound in closing.items() if bound > closed[q]}
    if not moving or not state.between(NEVER, max(moving.values())):
        return None
    frame = state.read(step.spark)
    assert frame is not None
    few = step.sized[index] = state.rows <= segments.SMALL_ROWS
    # What is waiting to be handed over belongs to the next owner: it stays as it is.
    leaving = {(m.query, int(m.epoch)) for m in step.memory.moves.outgoing if m.operator == index}
    kept = []
    for query, epoch in leaving:
        mine = f"{QUERY} = {text(query)} AND {GENERATION} < {epoch}"
        kept.append(frame.where(mine))
        frame = frame.where(f"NOT ({mine})")
    merged = drafts.then(("sessions", operator), lambda rows: merge_sessions(rows, operator), frame)
    sessions = step.tables.per_query(merged, closing, "__closing", otherwise=2**62)
    done = f"unix_micros({WINDOW_END}) <= __closing"
    # Rows that were merged here are of this owner's generation.
    since = step.since(index, step.memory.moves.epoch)
    still_open = sessions.where(f"NOT ({done})").drop("__closing")
    still_open = step.tables.per_query(still_open, since, GENERATION, otherwise=0)
    old = list(state.live)
    whole = union([still_open, *kept])
    assert whole is not None
    replacement = step.write(whole, f"sessions-{index}", WINDOW_END, small=few)
    step.outputs.dead += old
    state.live = [] if replacement is None else [replacement]
    closing_now = sessions.where(done).drop("__closing")
    return drafts.then(("session results", operator), lambda rows: results(rows, operator), closing_now)


def _without_late(
    step: Step, index: int, operator: Aggregate, fresh: Segment | None, closed: dict[QueryId, int]
) -> Segment | None:
    """Partials of windows that have closed already go to the late log."""
    # A window that ends just when the clock stands is closed: hence the microsecond.
    open_from = {q: bound + 1 for q, bound in closed.items() if bound > NEVER}
    if fresh is None or not any_before(fresh, WINDOW_END, open_from):
        return fresh
    frame = State([fresh]).read(step.spark)
    assert frame is not None
    frame = step.tables.per_query(frame, closed, "__closed", otherwise=NEVER)
    is_late = f"unix_micros({WINDOW_END}) <= __closed"
    few = fresh.rows <= segments.SMALL_ROWS
    late = step.write(frame.where(is_late).drop("__closed"), f"late-{index}", small=few)
    if late is None:
        return fresh
    step.outputs.late.append((index, late))
    return step.write(frame.where(f"NOT ({is_late})").drop("__closed"), f"in-time-{index}", WINDOW_END, small=few)
