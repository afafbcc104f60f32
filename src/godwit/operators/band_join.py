"""The join's part of a micro-batch: (new, old), (old, new) and (new, new) pairs, each found once.

State is the recent rows of both sides, cut by time: only segments that reach into the band around the new rows are
read. State that arrives from another region is one more delta: its rows meet the rows that are here, not each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from godwit.engine import segments
from godwit.engine.lazy_frame import Frame
from godwit.engine.segments import rows_of
from godwit.ids import QueryId
from godwit.model.plan import Join
from godwit.operators.join import Side, pairs
from godwit.protocol.watermarks import NEVER
from godwit.region.handover import arrivals, hand_over
from godwit.region.poll import Arrived
from godwit.region.state import State, any_before, meeting, union
from godwit.storage.log import Segment

if TYPE_CHECKING:
    from godwit.region.step import Step


@dataclass(frozen=True)
class Meeting:
    """Rows of the left and of the right that have not met yet. Empty on a side: nobody meets."""

    left: State
    right: State

    @property
    def rows(self) -> int:
        return max(self.left.rows, self.right.rows)


def join(step: Step, index: int, operator: Join, inputs: list[Frame | None]) -> Frame | None:
    """Take in both sides' new rows, hand over what moved away, and return the new pairs."""
    fresh = [_take_in(step, index, operator, side, frame) for side, frame in enumerate(inputs)]
    meetings = _of_new(step, index, operator, fresh)
    for side, new in enumerate(fresh):
        step.memory.state(index, side).live += new.live
    for together in _rounds(arrivals(step, index)):
        meetings += _of_arrived(step, index, operator, together)
    made = _pairs(step, index, operator, [m for m in meetings if m.left.live and m.right.live])
    hand_over(step, index, [operator.left_time, operator.right_time])
    _, now = step.clocks(index)
    clock = step.memory.moves.dead_before(index, now, step.tables.deployment)
    for side in (0, 1):
        _tidy(step, index, operator, side, clock)
    return made


def _time(operator: Join, side: int) -> str:
    return operator.right_time if side else operator.left_time


def _lasts(operator: Join, side: int) -> int:
    """For how long after its own time a row of that side can still find a partner, as the clock goes."""
    return operator.left_lag_us - operator.lower_us if side else operator.right_lag_us + operator.upper_us


def _take_in(step: Step, index: int, operator: Join, side: int, frame: Frame | None) -> State:
    """Stage one side's new rows. Rows behind the query's clock go to the late log."""
    time, few = _time(operator, side), step.small_input(index)
    new = list(step.landed.get((index, side), []))
    if frame is not None:
        segment = step.write(step.without_parameters(frame), f"state-{index}-{side}", time, small=few)
        new += [] if segment is None else [segment]
    lag = operator.right_lag_us if side else operator.left_lag_us
    let_go = {q: c - lag for q, c in step.memory.let_go.get(index, {}).items() if c > NEVER}
    in_time = [_in_time(step, f"{index}-{side}", segment, time, let_go, few) for segment in new]
    return State([segment for segment in in_time if segment is not None])


def _in_time(
    step: Step, where: str, segment: Segment, time: str, let_go: dict[QueryId, int], few: bool
) -> Segment | None:
    if not any_before(segment, time, let_go):
        return segment
    rows = State([segment]).read(step.spark)
    assert rows is not None
    rows = step.tables.per_query(rows, let_go, "__clock", otherwise=NEVER)
    is_late = f"unix_micros(`{time}`) < __clock"
    late = step.write(rows.where(is_late).drop("__clock"), f"late-{where}", small=few)
    if late is None:
        return segment
    step.outputs.late.append((int(where.partition("-")[0]), late))
    return step.write(rows.where(f"NOT ({is_late})").drop("__clock"), f"in-time-{where}", time, small=few)


def _of_new(step: Step, index: int, operator: Join, fresh: list[State]) -> list[Meeting]:
    """(new, old and new), (old, new)"""
    left, right = fresh
    old_and_new = State([*_partners(step, index, operator, 1, left).live, *right.live])
    return [Meeting(left, old_and_new), Meeting(_partners(step, index, operator, 0, right), right)]


def _rounds(arrived: Sequence[Arrived]) -> list[list[Arrived]]:
    """What can be taken in at once: of each query one hand-over a round, for two of them are to meet each other."""
    rounds: list[list[Arrived]] = []
    for one in arrived:
        free = (r for r in rounds if all(one.move.query != other.move.query for other in r))
        if (found := next(free, None)) is None:
            rounds.append([one])
        else:
            found.append(one)
    return rounds


def _of_arrived(step: Step, index: int, operator: Join, together: Sequence[Arrived]) -> list[Meeting]:
    """Arrived rows take this owner's generation and meet the rows of that generation; then they are state like any."""
    left, right = (State([s for arrived in together for s in arrived.parts.get(side, ())]) for side in (0, 1))
    meetings = [
        Meeting(left, _partners(step, index, operator, 1, left)),
        Meeting(_partners(step, index, operator, 0, right), right),
    ]
    for side, part in enumerate((left, right)):
        step.memory.state(index, side).live += part.live
    return meetings


def _partners(step: Step, index: int, operator: Join, side: int, of: State) -> State:
    """Segments of a side's state that reach into the band around the rows `of` the other."""
    if not of.live:
        return State()
    low, high = _band(operator, side, of)
    return State(step.memory.state(index, side).between(low, high))


def _band(operator: Join, side: int, of: State) -> tuple[int, int]:
    """When the partners of those rows, on the given side, can be at all."""
    first, last = NEVER if of.low is None else of.low, -NEVER if of.high is None else of.high
    if side == 1:
        return first + operator.lower_us, last + operator.upper_us
    return first - operator.upper_us, last - operator.lower_us


def _pairs(step: Step, index: int, operator: Join, meetings: list[Meeting]) -> Frame | None:
    """Where the rows are few, all meetings are held in one join: a plan of its own for each costs more than it does."""
    if not meetings:
        return None
    step.sized[index] = step.sized[index] and max(m.rows for m in meetings) <= segments.SMALL_ROWS
    left = meeting(step.spark, [m.left for m in meetings])
    right = None if left is None else meeting(step.spark, [m.right for m in meetings])
    if left is not None and right is not None:
        return _met(step, operator, left, right, _smaller(meetings), meetings=True)
    return union(_held(step, operator, one) for one in meetings)


def _held(step: Step, operator: Join, one: Meeting) -> Frame | None:
    left, right = one.left.read(step.spark), one.right.read(step.spark)
    assert left is not None
    assert right is not None
    left, right = _within(left, operator, 0, one.right), _within(right, operator, 1, one.left)
    return _met(step, operator, left, right, _smaller([one]) if one.rows <= segments.SMALL_ROWS else None)


def _smaller(meetings: Sequence[Meeting]) -> Side:
    return "left" if sum(m.left.rows for m in meetings) < sum(m.right.rows for m in meetings) else "right"


def _within(frame: Frame, operator: Join, side: int, of: State) -> Frame:
    low, high = _band(operator, side, of)
    time = _time(operator, side)
    return frame.where(f"`{time}` BETWEEN timestamp_micros({low}) AND timestamp_micros({high})")


def _met(step: Step, operator: Join, left: Frame, right: Frame, hashed: Side | None, meetings: bool = False) -> Frame:
    left, right = (step.tables.of_queries(frame) for frame in (left, right))
    found = pairs(left, right, operator, one_query=len(step.tables.queries) == 1, meetings=meetings, hashed=hashed)
    if operator.residual is None:
        return found
    return step.without_parameters(step.tables.with_parameters(found, operator.residual).where(operator.residual))


def _tidy(step: Step, index: int, operator: Join, side: int, clock: int) -> None:
    """Forget rows that no partner can meet any more; rewrite many small segments as one."""
    state = step.memory.state(index, side)
    if clock > NEVER:
        step.outputs.dead += state.drop_dead(clock - _lasts(operator, side) - 1)
    if crowd := state.crowded():
        few = rows_of(crowd) <= segments.SMALL_ROWS
        what, time = f"compact-{index}-{side}", _time(operator, side)
        if not state.gather(crowd, step.folder / step.name(what), time):
            state.compact(step.spark, crowd, partial(step.write, what=what, prune_by=time, small=few))
        step.outputs.dead += crowd
