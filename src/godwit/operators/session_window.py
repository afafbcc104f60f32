"""The window aggregate over sessions.

Different in one point: whether a partial is part of a finished session shows only when all its neighbours are seen, so
a batch in which a session may close rewrites the open ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from godwit.engine import lazy_frame as drafts
from godwit.engine.lazy_frame import Frame
from godwit.model.plan import GENERATION, QUERY, WINDOW_END, Aggregate
from godwit.operators.aggregate import merge_sessions, results
from godwit.operators.base import OperatorContext, Watermarks, implements
from godwit.operators.window import WindowAggregate, is_session
from godwit.protocol.watermarks import NEVER
from godwit.region.poll import Arrived
from godwit.region.sql_text import text
from godwit.region.state import State, union


@implements(Aggregate, when=is_session)
class SessionAggregate(WindowAggregate):
    """Keeps partials until no row can join their session any more."""

    def bound(self, clock: int) -> int:
        """A row exactly at a session's end would still be part of it."""
        return clock - 1

    def close(
        self, context: OperatorContext, closed: Watermarks, closing: Watermarks, moving: Watermarks
    ) -> Frame | None:
        state, node = context.state(), self.node
        if not state.between(NEVER, max(moving.values())):
            return None
        few = context.sizes.is_small(state.rows)
        context.makes_few(few)
        ours, kept = _ours(context)
        merged = drafts.then(("sessions", node), lambda rows: merge_sessions(rows, node), ours)
        sessions = context.tables.per_query(merged, closing, "__closing", otherwise=2**62)
        done = f"unix_micros({WINDOW_END}) <= __closing"
        still_open = sessions.where(f"NOT ({done})").drop("__closing")
        # Rows that were merged here are of this owner's generation.
        still_open = context.tables.per_query(still_open, context.generations(), GENERATION, otherwise=0)
        whole = union([still_open, *kept])
        assert whole is not None
        replacement = context.write(whole, "sessions", 0, few)
        context.replace(0, [] if replacement is None else [replacement])
        closing_now = sessions.where(done).drop("__closing")
        return drafts.then(("session results", node), lambda rows: results(rows, node), closing_now)

    def _opened(self, context: OperatorContext, arrived: Arrived, bounds: Watermarks) -> Frame | None:
        """Sessions have no bound from below: one that has ended closes when the watermark goes on. What the sender has
        closed is left out, where rows of it may be in a copy."""
        rows = [segment for part in arrived.everything.values() for segment in part]
        if not rows or not arrived.move.shadow:
            context.state().live += rows
            return None
        frame, node = State(rows).read(context.spark), self.node
        assert frame is not None
        merged = drafts.then(("sessions", node), lambda some: merge_sessions(some, node), frame.drop(GENERATION))
        done = self._bounds({arrived.move.query: arrived.clock})[arrived.move.query]
        still_open = merged.where(f"unix_micros({WINDOW_END}) > {done}")
        stamped = still_open.selectExpr("*", f"{int(arrived.move.epoch)}L AS {GENERATION}")
        context.state().append(context.write(stamped, "opened", 0, True))
        return None

    def passed_by(self, arrivals: Sequence[Arrived], closing: Watermarks) -> Watermarks:
        """Sessions that came may have ended by the watermark here, which went on without them."""
        known = {arrived.move.query for arrived in arrivals}
        return {query: closing[query] for query in known if closing.get(query, NEVER) > NEVER}

    def tidy(self, context: OperatorContext, closing: Watermarks) -> None:
        """Nothing: what is left was rewritten when it closed."""


def _ours(context: OperatorContext) -> tuple[Frame, list[Frame]]:
    """(the rows to merge, rows that wait to be handed over: they belong to the next owner, and stay as they are)"""
    frame, kept = context.state().read(context.spark, sizes=context.sizes), []
    assert frame is not None
    for query, epoch in context.leaving():
        mine = f"{QUERY} = {text(query)} AND {GENERATION} < {epoch}"
        kept.append(frame.where(mine))
        frame = frame.where(f"NOT ({mine})")
    return frame, kept
