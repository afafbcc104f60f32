"""Which state of the running plan serves the new one: matched, or computed in order (Section 4.1, Algorithm 1).

A state is what a join keeps of one of its inputs (or what an aggregate keeps), so it is known by what the sub-plan
below it computes: its *meaning*. The meaning of joins is their leaves and all that is demanded between them, in
whatever order (`conditions.py`): the rows of (a JOIN b) JOIN c are those of a JOIN (b JOIN c). An aggregate above the
box therefore keeps its state when the order changes. Equal meanings share rows by reference; nothing is copied.

An unmatched state is the output of a join of the new box: `Recompute` says which two states to join for it, inputs
before outputs. A matched leaf state may hold less of the past than the new plan asks for, because the old join let its
rows go earlier than the new one will (Section 4.1.3, footnote 5): `Matched.short_us` says how much is lacking.

Where the SQL has changed, an operator goes on with its whole state or begins again: with one side of a join alone, or
with less of its past than the new plan asks for, it would answer for something that nobody has asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from godwit.errors import ConfigError
from godwit.ids import StreamId
from godwit.model import signature
from godwit.model.plan import Join, Plan, Query, Stream
from godwit.model.signature import StateKey
from godwit.replan.box import JoinBox
from godwit.replan.fault import fault

Streams = Mapping[StreamId, Stream]


@dataclass(frozen=True)
class Matched:
    """A state that both plans have: the new one reads the rows of the old."""

    new: StateKey
    old: StateKey
    #: the aliases of the box that its rows are made of; () of a state that is not the box's
    covers: tuple[str, ...] = ()
    #: by how much the old state's past is too short for the new plan (0: it is not)
    short_us: int = 0


@dataclass(frozen=True)
class Recompute:
    """A state that only the new plan has: its rows are what join `operator` of the new plan makes of two others."""

    new: StateKey
    operator: int
    left: StateKey
    right: StateKey
    covers: tuple[str, ...]


@dataclass(frozen=True)
class StateMatch:
    matched: tuple[Matched, ...]
    #: in the order in which they can be computed
    recompute: tuple[Recompute, ...]
    #: states of the old plan that the new one has no use for
    discard: tuple[StateKey, ...]
    #: states of the new plan that begin empty: of sub-plans that the old one does not have (changed SQL only)
    empty: tuple[StateKey, ...] = ()

    @property
    def short(self) -> tuple[Matched, ...]:
        """Matched states whose missing past must be regained before the old plan's other states may be discarded."""
        return tuple(m for m in self.matched if m.short_us > 0)

    @property
    def complete(self) -> bool:
        """Whether the new plan can answer as if it had always run."""
        return not self.empty


def match(old: Query, new: Query, streams: Streams) -> StateMatch:
    """Match the states of two plans of one query, or of a query and the one that replaces it."""
    if old.shape.plan.sink.output != new.shape.plan.sink.output:
        msg = "rows of one plan replace each other and rows of the other do not"
        raise fault(msg, remedy="submit the changed query under a name of its own")
    return _Matching(_States(old, streams), _States(new, streams)).run()


def meanings(query: Query, streams: Streams) -> tuple[str, ...]:
    """Of each operator: what its rows are, in whatever order joins make them."""
    return _States(query, streams).meanings


class _States:
    """The states of one plan, with their meanings."""

    def __init__(self, query: Query, streams: Streams) -> None:
        self.query, self.plan = query, query.shape.plan
        self.box = _box(self.plan, streams)
        self.covers = self.box.covers if self.box else {}
        self._leaves = {leaf.root: leaf for leaf in self.box.conditions.leaves} if self.box else {}
        self.meanings = self._meanings(streams)
        #: state -> (operator, side)
        self.places = {
            StateKey(sign, side): (index, side)
            for index, sign in enumerate(query.shape.signatures)
            for side in range(len(self.plan.operators[index].state))
        }

    def _meanings(self, streams: Streams) -> tuple[str, ...]:
        """Of each operator: what its output rows are. Literals count by value, as in `Query.signatures`."""
        found: list[str] = []
        wanted = self.query.subscriptions

        def fill(text: str) -> str:
            return signature.filled(text, self.query.parameters)

        for index, operator in enumerate(self.plan.operators):
            if index in self.covers and self.box is not None:
                aliases = self.covers[index]
                leaves = sorted(found[leaf.root] for leaf in self._leaves.values() if leaf.alias in aliases)
                said = ["box", leaves, self.box.conditions.within(aliases)]
                found.append(signature.digest(said, fill=fill))
                continue
            kind, parts = signature.canonical(operator, fill)
            for where in ("inputs", "early"):  # numbers of a plan, and where it is done: not what its rows are
                parts.pop(where, None)
            below = [found[child] for child in operator.inputs]
            found.append(signature.digest([kind, parts, below, sorted(wanted.get(index, ()))]))
        return tuple(found)

    def meaning(self, key: StateKey) -> tuple[object, ...]:
        """What the rows of a state are: of a join those of its input, of others also what is made of them."""
        index, side = self.places[key]
        operator = self.plan.operators[index]
        if isinstance(operator, Join):
            return "rows", self.meanings[operator.inputs[side]]
        return "made", self.meanings[index], side

    def aliases(self, key: StateKey) -> tuple[str, ...]:
        index, side = self.places[key]
        if index not in self.covers:
            return ()
        child = self.plan.operators[index].inputs[side]
        found = self.covers.get(child) or frozenset((self._leaves[child].alias,))
        return tuple(sorted(found))

    def held_us(self, key: StateKey) -> int:
        """How long a row stays after its own time, where that is a matter of a band; else 0."""
        index, side = self.places[key]
        operator = self.plan.operators[index]
        return operator.stays_us[side] if isinstance(operator, Join) else 0

    def sibling(self, key: StateKey) -> tuple[str, ...]:
        """The aliases that a state's rows are joined with next."""
        return self.aliases(StateKey(key.signature, 1 - key.side))

    def time(self, key: StateKey) -> str:
        index, side = self.places[key]
        operator = self.plan.operators[index]
        assert isinstance(operator, Join)
        return (operator.left_time, operator.right_time)[side]


def _box(plan: Plan, streams: Streams) -> JoinBox | None:
    """The joins that can be put into another order, if there are any."""
    try:
        return JoinBox.of(plan, streams)
    except ConfigError:
        return None


class _Matching:
    def __init__(self, old: _States, new: _States) -> None:
        self._old, self._new = old, new
        #: meaning -> the old state that has it; of several the one that holds most
        self._found: dict[tuple[object, ...], StateKey] = {}
        for key in old.places:
            known = self._found.get(old.meaning(key))
            if known is None or old.held_us(key) > old.held_us(known):
                self._found[old.meaning(key)] = key
        self._matched: list[Matched] = []
        self._recompute: list[Recompute] = []
        self._empty: list[StateKey] = []

    def run(self) -> StateMatch:
        for key in self._new.places:  # operators in topological order: inputs before outputs
            self._settle(key)
        if not self._equivalent:
            while begins := self._begin_again():
                self._empty += begins
                self._matched = [m for m in self._matched if m.new not in begins]
                self._recompute = [step for step in self._recompute if step.new not in begins]
        sources = {key for step in self._recompute for key in (step.left, step.right)}
        matched = [replace(m, short_us=self._short(m, m.new in sources)) for m in self._matched]
        used = {m.old for m in matched}
        discard = tuple(key for key in self._old.places if key not in used)
        return StateMatch(tuple(matched), tuple(self._recompute), discard, tuple(self._empty))

    @property
    def _equivalent(self) -> bool:
        """Whether both plans say the same, in whatever order they join."""
        return self._old.meanings[-1] == self._new.meanings[-1]

    def _begin_again(self) -> list[StateKey]:
        """States that have something to go on with, of operators that cannot go on as a whole."""
        there = [*(m.new for m in self._matched), *(step.new for step in self._recompute)]
        short = {m.new for m in self._matched if self._old.held_us(m.old) < self._new.held_us(m.new)}
        lost = {key.signature for key in (*self._empty, *short)}
        # What a state would be computed of may be there for its next join, and lack rows that the computed one needs.
        thin = {m.new for m in self._matched if self._short(m, source=True)}
        lost |= {
            step.new.signature
            for step in self._recompute
            if {step.left.signature, step.right.signature} & lost or {step.left, step.right} & thin
        }
        return [key for key in there if key.signature in lost]

    def _settle(self, key: StateKey) -> None:
        old = self._found.get(self._new.meaning(key))
        if old is not None:
            self._matched.append(Matched(key, old, self._new.aliases(key)))
            return
        index, side = self._new.places[key]
        operator = self._new.plan.operators[index]
        child = operator.inputs[side] if side < len(operator.inputs) else -1
        if index in self._new.covers and child in self._new.covers:
            left, right = (StateKey(self._new.query.shape.signatures[child], s) for s in (0, 1))
            if not {left, right} & {*self._empty}:
                self._recompute.append(Recompute(key, child, left, right, self._new.aliases(key)))
                return
        self._empty.append(key)

    def _short(self, found: Matched, source: bool) -> int:
        """How much of its past is lacking. The source of a state that is computed must reach back as far as any
        result does that its rows may be part of; any other state only to the rows that it meets next."""
        if not found.covers or self._new.box is None:
            return 0
        conditions = self._new.box.conditions
        others = set(conditions.leaf) - set(found.covers) if source else self._new.sibling(found.new)
        return max(0, conditions.need_us(self._old.time(found.old), others) - self._old.held_us(found.old))
