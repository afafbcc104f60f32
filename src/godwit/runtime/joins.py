"""The join's part of a micro-batch: (new, old), (old, new) and (new, new) pairs, each found once.

State is the recent rows of both sides, cut by time: only segments that reach into the band around the new rows are
read. State that arrives from another region is one more delta: its rows meet the rows that are here, not each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from godwit.deployment.clocks import NEVER
from godwit.model.plan import Join
from godwit.runtime import segments
from godwit.runtime.log import Segment
from godwit.runtime.operators.join import pairs
from godwit.runtime.segments import rows_of
from godwit.runtime.state import State, union
from godwit.runtime.work import Arrived

if TYPE_CHECKING:
    from godwit.runtime.step import Step


@dataclass(frozen=True)
class Rows:
    """Rows to be joined, and how many they are at most."""

    frame: DataFrame
    most: int


def join(step: Step, index: int, operator: Join, inputs: list[DataFrame | None]) -> DataFrame | None:
    """Take in both sides' new rows, hand over what moved away, and return the new pairs."""
    fresh = [_take_in(step, index, operator, side, frame) for side, frame in enumerate(inputs)]
    made = [_pairs_of_new(step, index, operator, fresh)]
    for side, segment in enumerate(fresh):
        step.memory.state(index, side).append(segment)
    made += [_pairs_of_arrived(step, index, operator, together) for together in _rounds(step.arrivals(index))]
    step.hand_over(index, [operator.left_time, operator.right_time])
    _, now = step.clocks(index)
    clock = min(now.values(), default=NEVER)
    for side in (0, 1):
        _tidy(step, index, operator, side, clock)
    return union(made)


def _time(operator: Join, side: int) -> str:
    return operator.right_time if side else operator.left_time


def _lasts(operator: Join, side: int) -> int:
    """For how long after its own time a row of that side can still find a partner, as the clock goes."""
    return operator.left_lag_us - operator.lower_us if side else operator.right_lag_us + operator.upper_us


def _take_in(step: Step, index: int, operator: Join, side: int, frame: DataFrame | None) -> Segment | None:
    """Stage one side's new rows. Rows behind the query's clock go to the late log."""
    if frame is None:
        return None
    time = _time(operator, side)
    few = step.small_input(index)
    segment = step.write(step.without_parameters(frame), f"state-{index}-{side}", time, small=few)
    lag = operator.right_lag_us if side else operator.left_lag_us
    let_go = {q: c - lag for q, c in step.memory.let_go.get(index, {}).items() if c > NEVER}
    if segment is None or segment.low is None or not let_go or segment.low >= max(let_go.values()):
        return segment
    rows = State([segment]).read(step.spark)
    assert rows is not None
    rows = step.tables.per_query(rows, let_go, "__clock", otherwise=NEVER)
    is_late = F.unix_micros(F.col(time)) < F.col("__clock")
    late = step.write(rows.where(is_late).drop("__clock"), f"late-{index}-{side}", small=few)
    if late is None:
        return segment
    step.outputs.late.append((index, late))
    return step.write(rows.where(~is_late).drop("__clock"), f"in-time-{index}-{side}", time, small=few)


def _pairs_of_new(step: Step, index: int, operator: Join, fresh: list[Segment | None]) -> DataFrame | None:
    left, right = (State([] if segment is None else [segment]) for segment in fresh)
    both_new = _partners(step, index, operator, 1, left, extra=fresh[1])
    old_left = _partners(step, index, operator, 0, right, extra=None)
    return union(
        [
            _pairs(step, index, operator, _read(step, left), both_new),
            _pairs(step, index, operator, old_left, _read(step, right)),
        ]
    )


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


def _pairs_of_arrived(step: Step, index: int, operator: Join, together: Sequence[Arrived]) -> DataFrame | None:
    """Arrived rows take this owner's generation and meet the rows of that generation; then they are state like any."""
    made = []
    parts = {side: [s for arrived in together for s in arrived.parts.get(side, ())] for side in (0, 1)}
    for side, part in parts.items():
        mine = State(part)
        partners = _partners(step, index, operator, 1 - side, mine, extra=None)
        left, right = (_read(step, mine), partners) if side == 0 else (partners, _read(step, mine))
        made.append(_pairs(step, index, operator, left, right))
    for side, part in parts.items():
        step.memory.state(index, side).live += part
    return union(made)


def _partners(step: Step, index: int, operator: Join, side: int, of: State, extra: Segment | None) -> Rows | None:
    """State rows of a side (and the `extra` segment) whose time lies in the band around the rows `of` the other."""
    if of.low is None or of.high is None:
        return None
    if side == 1:
        low, high = of.low + operator.lower_us, of.high + operator.upper_us
    else:
        low, high = of.low - operator.upper_us, of.high - operator.lower_us
    state = step.memory.state(index, side)
    chosen = State([*state.between(low, high), *([] if extra is None else [extra])])
    frame = chosen.read(step.spark)
    if frame is None:
        return None
    within = f"`{_time(operator, side)}` BETWEEN timestamp_micros({low}) AND timestamp_micros({high})"
    return Rows(frame.where(within), chosen.rows)


def _pairs(step: Step, index: int, operator: Join, left: Rows | None, right: Rows | None) -> DataFrame | None:
    if left is None or right is None:
        return None
    few = max(left.most, right.most) <= segments.SMALL_ROWS
    step.sized[index] = step.sized[index] and few
    ours, theirs = (step.tables.of_queries(side.frame) for side in (left, right))
    if few:
        ours, theirs = ours.coalesce(1), theirs.coalesce(1)
    found = pairs(ours, theirs, operator, one_query=len(step.tables.queries) == 1)
    if operator.residual is None:
        return found
    return step.without_parameters(step.tables.with_parameters(found, operator.residual).where(operator.residual))


def _read(step: Step, state: State) -> Rows | None:
    frame = state.read(step.spark)
    return None if frame is None else Rows(frame, state.rows)


def _tidy(step: Step, index: int, operator: Join, side: int, clock: int) -> None:
    """Forget rows that no partner can meet any more; rewrite many small segments as one."""
    state = step.memory.state(index, side)
    if clock > NEVER:
        step.outputs.dead += state.drop_dead(clock - _lasts(operator, side) - 1)
    if crowd := state.crowded():
        few = rows_of(crowd) <= segments.SMALL_ROWS
        rewrite = partial(step.write, what=f"compact-{index}-{side}", prune_by=_time(operator, side), small=few)
        state.compact(step.spark, crowd, rewrite)
        step.outputs.dead += crowd
