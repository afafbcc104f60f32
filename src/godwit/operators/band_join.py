"""The band join: (new, old), (old, new) and (new, new) pairs, each found once.

State is the recent rows of both sides, cut by time: only segments that reach into the band around the new rows are
read. State that arrives from another region is one more delta: its rows meet the rows that are here, not each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from godwit.engine.held import within
from godwit.engine.lazy_frame import Frame, LazyFrame, made
from godwit.model.plan import MEETING, Join
from godwit.operators.base import OperatorContext, StatefulOperator, implements
from godwit.operators.join import Side, Told, pairs
from godwit.protocol.watermarks import NEVER
from godwit.region.poll import Arrived
from godwit.region.state import State, meeting, union
from godwit.storage.log import Segment


@dataclass(frozen=True)
class Meeting:
    """Rows of the left and of the right that have not met yet. Empty on a side: nobody meets."""

    left: State
    right: State
    #: rows of the right that those of the left have met before
    met: State = field(default_factory=State)

    @property
    def rows(self) -> int:
        return max(self.left.rows, self.right.rows)


@implements(Join)
class BandJoin(StatefulOperator):
    """Keeps the rows of both sides for as long as a partner may come."""

    def __init__(self, node: Join) -> None:
        self.node = node

    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        made = self.pairs(context, self.take_in(context, inputs)[0])
        context.hand_over()
        _, now = context.advance()
        clock = context.dead_before(now)
        for side, stays in enumerate(self.node.stays_us):
            context.tidy(side, clock - stays - 1)
        return made

    def take_in(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> tuple[list[Meeting], list[Arrived]]:
        """New rows and state that has arrived become state; returned is who meets whom thereby, each pair once, and
        what arrived."""
        meetings = self._of_new(context, *(State(self._new(context, side, rows)) for side, rows in enumerate(inputs)))
        arrivals = context.arrivals()
        for together in rounds(arrivals):
            meetings += self._of_arrived(context, together)
            waited = (State([s for one in together for s in one.waited.get(side, ())]) for side in (0, 1))
            meetings += self._of_new(context, *waited)
        return [m for m in meetings if m.left.live and m.right.live], arrivals

    def _of_new(self, context: OperatorContext, left: State, right: State) -> list[Meeting]:
        # (new, old and new), (old, new)
        old_and_new = State([*self.partners(context, 1, left).live, *right.live])
        old = self.partners(context, 0, right)
        meetings = [Meeting(left, old_and_new), Meeting(old, right, self.partners(context, 1, old))]
        for side, new in enumerate((left, right)):
            context.state(side).live += new.live
        return meetings

    def _new(self, context: OperatorContext, side: int, frame: Frame | None) -> list[Segment]:
        lag = self.node.state[side].lag_us
        since = {query: clock - lag for query, clock in context.released().items() if clock > NEVER}
        rows = None if frame is None else context.tables.without_parameters(frame)
        return context.admit(side, rows, since, linked=True)

    def _of_arrived(self, context: OperatorContext, together: Sequence[Arrived]) -> list[Meeting]:
        """Arrived rows take this owner's generation and meet the rows of that generation; then they are state like
        any."""
        left, right = (State([s for arrived in together for s in arrived.parts.get(side, ())]) for side in (0, 1))
        here = self.partners(context, 0, right)
        meetings = [
            Meeting(left, self.partners(context, 1, left), right),
            Meeting(here, right, self.partners(context, 1, here)),
        ]
        for side, part in enumerate((left, right)):
            context.state(side).live += part.live
        return meetings

    def partners(self, context: OperatorContext, side: int, of: State) -> State:
        """Segments of a side's state that reach into the band around the rows `of` the other."""
        return State(context.state(side).between(*self._band(side, of))) if of.live else State()

    def _band(self, side: int, of: State) -> tuple[int, int]:
        """When the partners of those rows, on the given side, can be at all."""
        return self.reach(side, NEVER if of.low is None else of.low, -NEVER if of.high is None else of.high)

    def reach(self, side: int, first: int, last: int) -> tuple[int, int]:
        """When, on the given side, partners of rows from `first` to `last` can be."""
        if side == 1:
            return first + self.node.lower_us, last + self.node.upper_us
        return first - self.node.upper_us, last - self.node.lower_us

    def pairs(self, context: OperatorContext, meetings: list[Meeting]) -> Frame | None:
        """Where the rows are few, all meetings are held in one join: a plan of its own for each costs more than it
        does."""
        if not meetings:
            return None
        context.makes_few(context.few and context.sizes.is_small(max(m.rows for m in meetings)))
        left = meeting(context.spark, [m.left for m in meetings], context.sizes)
        right = None if left is None else meeting(context.spark, [m.right for m in meetings], context.sizes)
        if left is not None and right is not None:
            left, right = context.in_company(0, left), context.in_company(1, right)
            return self._met(context, left, right, _smaller(meetings), "same")
        first, *more = meetings
        if more and (old := _others(first.right, more[0].right)) is not None:
            return union([self._held_once(context, first, more[0], old), *(self._held(context, m) for m in more[1:])])
        return union(self._held(context, one) for one in meetings)

    def _held(self, context: OperatorContext, one: Meeting) -> Frame:
        left, right = self._within(context, one.left, 0, one.right), self._within(context, one.right, 1, one.left)
        return self._met(context, left, right, _smaller([one]) if context.sizes.is_small(one.rows) else None)

    def _held_once(self, context: OperatorContext, new: Meeting, late: Meeting, old: State) -> Frame:
        """The new of the left with all of the right, and the old of the left with the new of the right, in one join of
        all with all but the old with the `old`: so none is shuffled and sorted twice."""
        everybody = State([*late.left.live, *new.left.live])
        sides = (
            [(late.left, late.right, 0), (new.left, new.right, 1)],
            [(old, new.left, 0), (late.right, everybody, 1)],
        )
        left, right = (
            union(
                self._within(context, rows, side, of).selectExpr("*", f"{fresh} AS {MEETING}")
                for rows, of, fresh in parts
                if rows.live
            )
            for side, parts in enumerate(sides)
        )
        assert left is not None
        assert right is not None
        few = context.sizes.is_small(max(everybody.rows, new.rows))
        return self._met(context, left, right, _smaller([new, late]) if few else None, "one is new")

    def _within(self, context: OperatorContext, rows: State, side: int, of: State) -> Frame:
        """Rows of a side that reach into the band around those of the other."""
        frame = rows.read(context.spark, sizes=context.sizes)
        assert frame is not None
        frame, (low, high) = context.in_company(side, frame), self._band(side, of)
        time = f"`{self.node.state[side].time}`"
        if isinstance(frame, LazyFrame):
            return frame.where(f"{time} BETWEEN timestamp_micros({low}) AND timestamp_micros({high})")
        return within(made(frame), f"unix_micros({time})", low, high + 1)

    def _met(
        self, context: OperatorContext, left: Frame, right: Frame, hashed: Side | None, told: Told | None = None
    ) -> Frame:
        tables, residual = context.tables, self.node.residual
        left, right = (tables.of_queries(frame) for frame in (left, right))
        one_query = len(tables.queries) == 1
        found = pairs(left, right, self.node, one_query=one_query, told=told, hashed=hashed)
        if residual is None:
            return found
        return tables.without_parameters(tables.with_parameters(found, residual).where(residual))


def rounds(arrived: Sequence[Arrived]) -> list[list[Arrived]]:
    """What can be taken in at once: of each query one hand-over a round, for two of them are to meet each other."""
    rounds: list[list[Arrived]] = []
    for one in arrived:
        free = (r for r in rounds if all(one.move.query != other.move.query for other in r))
        if (found := next(free, None)) is None:
            rounds.append([one])
        else:
            found.append(one)
    return rounds


def _others(all_rows: State, new: State) -> State | None:
    """What is there beside the new rows; None: these are not among them."""
    theirs = set(map(id, new.live))
    found = [segment for segment in all_rows.live if id(segment) not in theirs]
    return State(found) if len(found) + len(new.live) == len(all_rows.live) else None


def _smaller(meetings: Sequence[Meeting]) -> Side:
    return "left" if sum(m.left.rows for m in meetings) < sum(m.right.rows for m in meetings) else "right"
