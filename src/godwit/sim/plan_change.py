"""A change of plan in the model: each strategy from the first row to the last, over arrivals in any order.

What comes out must be what a box that never changed would say (`join_box.expected`), whatever the strategy. The rules
are an argument, so that a test can break one and see that it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from godwit.replan import rules
from godwit.replan.join_tree import JoinTree
from godwit.sim.join_box import BoxRow, Combination, ProbeBox, Purgeable, RootJoins, SimBox


@dataclass(frozen=True)
class ChangeRules:
    old_root_joins: RootJoins = rules.old_root_joins
    purgeable: Purgeable = rules.purgeable
    #: whether the old box answers until no stream has rows from before the start any more (Section 4.1.3)
    drains: bool = True
    #: whether its states let nothing go meanwhile (`moving-state`)
    keeps: bool = True


@dataclass
class ChangeOutcome:
    #: results in the order in which they came out, and the box that made each
    made: list[tuple[str, Combination]] = field(default_factory=list)
    #: how many rows came in between the start of the change and its end
    length: int = 0
    #: pairs looked at, in both boxes
    probed: int = 0
    #: after each row: its time, the combinations kept in all boxes, the results so far
    trace: list[tuple[int, int, int]] = field(default_factory=list)
    #: when the change began and when it was over, by the times of rows
    began: int = 0
    ended: int = 0

    def note(self, row: BoxRow, *boxes: SimBox | ProbeBox) -> None:
        self.trace.append((row.time, sum(box.intermediate for box in boxes), len(self.made)))

    @property
    def results(self) -> list[Combination]:
        return sorted(made for _, made in self.made)


@dataclass(frozen=True)
class SimPlanChange:
    old: JoinTree
    new: JoinTree
    window: int
    arrivals: Sequence[BoxRow]
    #: after how many arrivals it begins
    at: int
    #: how many rows come in while states are computed beside the old box (`background`)
    building: int = 0
    #: whether the new box's results wait for the old box's end (`parallel-track`)
    held: bool = True
    rules: ChangeRules = ChangeRules()


def run(strategy: str, change: SimPlanChange) -> ChangeOutcome:
    """One change."""
    if strategy == "stateless-order":
        return _stateless_order(change)
    return run_in_a_row([(strategy, change.new, change.at)], change)


def run_in_a_row(changes: Sequence[tuple[str, JoinTree, int]], change: SimPlanChange) -> ChangeOutcome:
    """(strategy, order, after how many arrivals) one after the other. One that begins before the one before it is over
    waits for that; `change` says the rest."""
    out, rest = ChangeOutcome(), list(change.arrivals)
    box = SimBox(change.old, change.window, change.rules.purgeable)
    for strategy, order, at in changes:
        taken = len(change.arrivals) - len(rest)
        before, rest = rest[: max(0, at - taken)], rest[max(0, at - taken) :]
        _feed(out, "old", box, before)
        out.began = out.ended = out.trace[-1][0] if out.trace else 0
        new = SimBox(order, change.window, change.rules.purgeable)
        rest = STRATEGIES[strategy](change, box, new, rest, out)
        out.probed += box.probed
        box = new
    _feed(out, "new", box, rest)
    out.probed += box.probed
    return out


def _moving_state(
    change: SimPlanChange, old: SimBox, new: SimBox, rest: list[BoxRow], out: ChangeOutcome
) -> list[BoxRow]:
    """Algorithm 2: process what is from before the start, share and compute states, go on in the new box. What comes
    of faster streams is processed meanwhile, not held; so states let nothing go."""
    late, rest = _drained(change, rest, 0)
    old.keeps_all = change.rules.keeps
    out.length = len(late)
    _feed(out, "old", old, late)
    new.take_over(old.states())
    return rest


def _parallel_track(
    change: SimPlanChange, old: SimBox, new: SimBox, rest: list[BoxRow], out: ChangeOutcome
) -> list[BoxRow]:
    """Algorithm 3: both boxes until the old one holds only new rows; the new one starts empty."""
    held = list[tuple[str, Combination]]()
    old.old, old.root_joins = old.rows, change.rules.old_root_joins
    while rest and not rules.old_box_is_finished(old.ages()):
        row, *rest = rest
        out.length += 1
        out.made += [("old", made) for made in old.push(row)]
        (held if change.held else out.made).extend(("new", made) for made in new.push(row))
        out.note(row, old, new)
        out.ended = row.time
    out.made += held
    return rest


def _pause_drain_resume(
    change: SimPlanChange, old: SimBox, new: SimBox, rest: list[BoxRow], out: ChangeOutcome
) -> list[BoxRow]:
    """Windows run out: the old box answers for its old rows only; then the new box takes all rows since the start."""
    old.old, old.root_joins = old.rows, change.rules.old_root_joins
    since = list(rest)
    while rest and not rules.old_box_is_finished(old.ages()):
        row, *rest = rest
        out.length += 1
        out.made += [("old", made) for made in old.push(row)]
        out.note(row, old)
        out.ended = row.time
    return since


def _background(
    change: SimPlanChange, old: SimBox, new: SimBox, rest: list[BoxRow], out: ChangeOutcome
) -> list[BoxRow]:
    """Moving state, for which the new box's states as of the start are made while the old box goes on."""
    ahead = SimBox(change.new, change.window)
    ahead.take_over({covers: list(kept) for covers, kept in old.states().items()})
    late, rest = _drained(change, rest, change.building)
    old.keeps_all = change.rules.keeps
    out.length = len(late)
    _feed(out, "old", old, late)
    new.take_over(old.states(), ahead.states())
    new.probed += ahead.probed
    return rest


def _stateless_order(change: SimPlanChange) -> ChangeOutcome:
    out = ChangeOutcome()
    box = ProbeBox(change.old, change.window)
    _feed(out, "old", box, change.arrivals[: change.at])
    box.tree = change.new
    _feed(out, "new", box, change.arrivals[change.at :])
    out.probed = box.probed
    return out


#: what each does from the start of a change until the new box is alone: (.., old box, new box, rows, outcome) -> the
#: rows that the new box takes next
STRATEGIES: dict[str, Callable[[SimPlanChange, SimBox, SimBox, list[BoxRow], ChangeOutcome], list[BoxRow]]] = {
    "pause-drain-resume": _pause_drain_resume,
    "moving-state": _moving_state,
    "parallel-track": _parallel_track,
    "background": _background,
}
#: with the one whose box has no states to change
NAMES = (*STRATEGIES, "stateless-order")


def _feed(out: ChangeOutcome, name: str, box: SimBox | ProbeBox, rows: Sequence[BoxRow]) -> None:
    for row in rows:
        out.made += [(name, made) for made in box.push(row)]
        out.note(row, box)


def _drained(change: SimPlanChange, rest: list[BoxRow], least: int) -> tuple[list[BoxRow], list[BoxRow]]:
    """cleanAccumulatedTuples(): (what comes until no row is from before the start, at least that many; the rest)"""
    started = max((row.time for row in change.arrivals if row not in rest), default=0)
    early = [at for at, row in enumerate(rest) if row.time < started] if change.rules.drains else []
    until = max([least, *(at + 1 for at in early)])
    return rest[:until], rest[until:]
