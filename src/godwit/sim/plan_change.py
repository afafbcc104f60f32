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
    #: whether rows that came before the start are processed before states are discarded
    drains: bool = True
    #: whether rows that only unmatched old states hold are put back into the matched ones (footnote 5)
    regains: bool = True


@dataclass
class ChangeOutcome:
    #: results in the order in which they came out, and the box that made each
    made: list[tuple[str, Combination]] = field(default_factory=list)
    #: how many rows came in between the start of the change and its end
    length: int = 0
    #: pairs looked at, in both boxes
    probed: int = 0

    @property
    def results(self) -> list[Combination]:
        return sorted(made for _, made in self.made)


@dataclass(frozen=True)
class PlanChange:
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


def run(strategy: str, change: PlanChange) -> ChangeOutcome:
    return STRATEGIES[strategy](change)


def _moving_state(change: PlanChange) -> ChangeOutcome:
    """Algorithm 2: process what came before the start, share and compute states, go on in the new box."""
    out = ChangeOutcome()
    old, rest = _before(change, out)
    if change.rules.drains:
        rest = _drain(change, old, rest, out)
    new = SimBox(change.new, change.window, change.rules.purgeable)
    new.take_over(old.states())
    _feed(out, "new", new, rest)
    out.probed = old.probed + new.probed
    return out


def _parallel_track(change: PlanChange) -> ChangeOutcome:
    """Algorithm 3: both boxes until the old one holds only new rows; the new one starts empty."""
    out, held = ChangeOutcome(), list[tuple[str, Combination]]()
    old, rest = _before(change, out)
    old.old, old.root_joins = old.rows, change.rules.old_root_joins
    new = SimBox(change.new, change.window, change.rules.purgeable)
    while rest and not rules.old_box_is_finished(old.ages()):
        row, *rest = rest
        out.length += 1
        out.made += [("old", made) for made in old.push(row)]
        (held if change.held else out.made).extend(("new", made) for made in new.push(row))
    out.made += held
    _feed(out, "new", new, rest)
    out.probed = old.probed + new.probed
    return out


def _pause_drain_resume(change: PlanChange) -> ChangeOutcome:
    """Windows run out: the old box answers for its old rows only; then the new box takes all rows since the start."""
    out = ChangeOutcome()
    old, rest = _before(change, out)
    old.old, old.root_joins = old.rows, change.rules.old_root_joins
    since, waiting = list(rest), list(rest)
    while waiting and not rules.old_box_is_finished(old.ages()):
        row, *waiting = waiting
        out.length += 1
        out.made += [("old", made) for made in old.push(row)]
    new = SimBox(change.new, change.window, change.rules.purgeable)
    _feed(out, "new", new, since)
    out.probed = old.probed + new.probed
    return out


def _background(change: PlanChange) -> ChangeOutcome:
    """The new box's states as of the start are computed while the old box goes on; they catch up in silence."""
    out = ChangeOutcome()
    old, rest = _before(change, out)
    new = SimBox(change.new, change.window, change.rules.purgeable)
    states = {covers: list(kept) for covers, kept in old.states().items()}
    new.take_over(_regained(states) if change.rules.regains else states)
    between, rest = rest[: change.building], rest[change.building :]
    out.length = len(between)
    for row in between:
        out.made += [("old", made) for made in old.push(row)]
        new.push(row)
    _feed(out, "new", new, rest)
    out.probed = old.probed + new.probed
    return out


def _stateless_order(change: PlanChange) -> ChangeOutcome:
    out = ChangeOutcome()
    box = ProbeBox(change.old, change.window)
    _feed(out, "old", box, change.arrivals[: change.at])
    box.tree = change.new
    _feed(out, "new", box, change.arrivals[change.at :])
    out.probed = box.probed
    return out


STRATEGIES: dict[str, Callable[[PlanChange], ChangeOutcome]] = {
    "pause-drain-resume": _pause_drain_resume,
    "moving-state": _moving_state,
    "parallel-track": _parallel_track,
    "background": _background,
    "stateless-order": _stateless_order,
}


def _before(change: PlanChange, out: ChangeOutcome) -> tuple[SimBox, list[BoxRow]]:
    old = SimBox(change.old, change.window, change.rules.purgeable)
    _feed(out, "old", old, change.arrivals[: change.at])
    return old, list(change.arrivals[change.at :])


def _feed(out: ChangeOutcome, name: str, box: SimBox | ProbeBox, rows: Sequence[BoxRow]) -> None:
    for row in rows:
        out.made += [(name, made) for made in box.push(row)]


def _drain(change: PlanChange, old: SimBox, rest: list[BoxRow], out: ChangeOutcome) -> list[BoxRow]:
    """cleanAccumulatedTuples(): rows whose time lies before the start go through the old box first."""
    started = max((row.time for row in change.arrivals[: change.at]), default=0)
    late = [row for row in rest if row.time < started]
    out.length = len(late)
    _feed(out, "old", old, late)
    return [row for row in rest if row.time >= started]


def _regained(states: dict[frozenset[str], list[Combination]]) -> dict[frozenset[str], list[Combination]]:
    """The states, those of leaves with the rows that combinations still hold and their own state has let go."""
    rows = {row for kept in states.values() for made in kept for row in made}
    leaves = {covers for covers in states if len(covers) == 1}
    return states | {covers: sorted((row,) for row in rows if row.alias in covers) for covers in leaves}
