"""Sub-plans (decomposed query plans, DQPs): maximal connected sets of instances on one node, each with a version.

`decompose` says what the sub-plans of a placement are. `Subplans` keeps them up to date edit by edit: a sub-plan's id
stays with it (the larger part keeps it when one splits, the larger one when two merge), and its version goes up when
its operators or its connections change. A version is handed out only once, also if it is taken back later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from godwit.ids import DqpId, NodeId
from godwit.model.components import connected
from godwit.model.global_plan import Edge, GlobalPlan
from godwit.model.instances import InstanceId
from godwit.model.journal import Journal

#: (own instance, the instance it is connected with, the node of the latter)
Connection = tuple[InstanceId, InstanceId, NodeId]
Placement = Mapping[InstanceId, NodeId]


@dataclass(frozen=True)
class Dqp:
    """A sub-plan as a value."""

    id: DqpId
    node: NodeId
    version: int
    operators: frozenset[InstanceId]
    connections: frozenset[Connection]


@dataclass(frozen=True)
class DqpEdit:
    """What happened to one sub-plan. `before` or `after` None: there was, or is, no such sub-plan."""

    id: DqpId
    node: NodeId
    before: int | None
    after: int | None
    added: frozenset[InstanceId]
    removed: frozenset[InstanceId]
    connected: frozenset[Connection]
    disconnected: frozenset[Connection]


def decompose(plan: GlobalPlan, placement: Placement) -> set[frozenset[InstanceId]]:
    """The maximal connected sets of placed instances that share a node."""
    together = (
        (producer, consumer)
        for producer in placement
        for consumer in plan.consumers.get(producer, ())
        if placement.get(consumer) == placement[producer]
    )
    return set(connected(placement, together))


def connections(plan: GlobalPlan, placement: Placement, operators: Iterable[InstanceId]) -> frozenset[Connection]:
    """The ends of all edges that lead out of a set of instances on one node to another node."""
    return frozenset(
        (own, peer, placement[peer])
        for own in operators
        for peer in plan.neighbours(own)
        if peer in placement and placement[peer] != placement[own]
    )


class Subplans:
    """All sub-plans of the current placement."""

    def __init__(self, plan: GlobalPlan, placement: Placement, journal: Journal) -> None:
        self._plan, self._placement, self._journal = plan, placement, journal
        self.of: dict[InstanceId, DqpId] = {}
        self.operators: dict[DqpId, dict[InstanceId, None]] = {}
        self.node: dict[DqpId, NodeId] = {}
        self.version: dict[DqpId, int] = {}
        # Not taken back with an update: ids and versions are never used twice, as long as the node is there.
        self._last_id: dict[NodeId, int] = {}
        self._last_version: dict[DqpId, int] = {}
        #: sub-plans that ended since they were last tidied up after
        self._ended: dict[DqpId, NodeId] = {}

    def get(self, dqp: DqpId) -> Dqp:
        operators = frozenset(self.operators[dqp])
        return Dqp(
            dqp,
            self.node[dqp],
            self.version[dqp],
            operators,
            connections(self._plan, self._placement, operators),
        )

    def all(self) -> dict[DqpId, Dqp]:
        return {dqp: self.get(dqp) for dqp in self.operators}

    def numbers(self) -> tuple[dict[NodeId, int], dict[DqpId, int]]:
        """The ids and versions handed out so far."""
        return dict(self._last_id), dict(self._last_version)

    def renumber(self, numbers: tuple[dict[NodeId, int], dict[DqpId, int]]) -> None:
        """Only after a dry run: what it handed out was not used."""
        self._last_id, self._last_version = numbers

    def tidy(self, has: Callable[[NodeId], bool]) -> None:
        """What ended will not be taken back: forget its numbers, and those of nodes that are not there any more."""
        ended, self._ended = self._ended, {}
        for dqp, node in ended.items():
            if dqp not in self.operators:
                self._last_version.pop(dqp, None)
            if not has(node):
                self._last_id.pop(node, None)

    def update(
        self, was: Mapping[InstanceId, NodeId | None], cut: Iterable[Edge], joined: Iterable[Edge]
    ) -> list[DqpEdit]:
        """Follow the placement, which has changed for the instances in `was` (their old nodes; None: had none).

        `cut` and `joined` are the edges that left and entered the plan.
        """
        wires = _Wires(self._plan, self._placement, was, cut, joined)
        update = _Update(self, was, wires)
        return update.run()


class _Wires:
    """Connections lost and won by a change of placement, by instance."""

    def __init__(
        self,
        plan: GlobalPlan,
        placement: Placement,
        was: Mapping[InstanceId, NodeId | None],
        cut: Iterable[Edge],
        joined: Iterable[Edge],
    ) -> None:
        new_edges = set(joined)
        now_edges = {edge for op in was for edge in plan.edges_at(op)} | {e for e in new_edges if _has(plan, e)}
        old_edges = (now_edges | set(cut)) - new_edges
        self.lost: set[Connection] = set()
        self.won: set[Connection] = set()
        for a, b in old_edges:
            _connect(self.lost, a, b, was.get(a, placement.get(a)), was.get(b, placement.get(b)))
        for a, b in now_edges:
            _connect(self.won, a, b, placement.get(a), placement.get(b))


def _has(plan: GlobalPlan, edge: Edge) -> bool:
    return edge[1] in plan.consumers.get(edge[0], ())


def _connect(into: set[Connection], a: InstanceId, b: InstanceId, at: NodeId | None, to: NodeId | None) -> None:
    if at is not None and to is not None and at != to:
        into.add((a, b, to))
        into.add((b, a, at))


class _Update:
    """One call of Subplans.update: take instances out, split what fell apart, put instances in, compare."""

    def __init__(self, all_: Subplans, was: Mapping[InstanceId, NodeId | None], wires: _Wires) -> None:
        self._all, self._was, self._wires = all_, was, wires
        self._journal = all_._journal
        #: touched sub-plan -> (its version, or None if it is new)
        self._before: dict[DqpId, int | None] = {}
        #: touched sub-plan -> (its node)
        self._node: dict[DqpId, NodeId] = {}
        self._home: dict[InstanceId, DqpId | None] = {}

    def run(self) -> list[DqpEdit]:
        all_, placement = self._all, self._all._placement
        # An instance that stays is touched as well if an edge it shares its node with came or went.
        edited = sorted(self._was)
        loosened = {own for own, _, _ in self._wires.lost | self._wires.won} - set(edited)
        lost = self._by_home(self._wires.lost)
        torn = {all_.of[op] for op in edited if op in all_.of}
        for op in edited:
            if op in all_.of:
                self._take_out(op)
        for dqp in sorted(torn):
            self._split(dqp)
        for op in edited:
            if op in placement:
                self._put_in(op, placement[op])
        for op in sorted(loosened):
            if op in all_.of:
                self._touch(all_.of[op])
        return self._edits(lost, self._by_home(self._wires.won))

    def _by_home(self, wires: set[Connection]) -> dict[DqpId, set[Connection]]:
        found: dict[DqpId, set[Connection]] = {}
        for wire in wires:
            if wire[0] in self._all.of:
                found.setdefault(self._all.of[wire[0]], set()).add(wire)
        return found

    def _touch(self, dqp: DqpId) -> None:
        if dqp not in self._before:
            self._before[dqp] = self._all.version.get(dqp)
            self._node[dqp] = self._all.node[dqp]

    def _take_out(self, op: InstanceId) -> None:
        dqp = self._all.of[op]
        self._touch(dqp)
        self._home.setdefault(op, dqp)
        self._journal.drop(self._all.of, op)
        self._journal.out_of(self._all.operators, dqp, op)
        if dqp not in self._all.operators:
            self._journal.drop(self._all.node, dqp)
            self._journal.drop(self._all.version, dqp)

    def _split(self, dqp: DqpId) -> None:
        rest = set(self._all.operators.get(dqp, ()))
        parts: list[set[InstanceId]] = []
        while rest:
            part = self._reach(rest)
            parts.append(part)
            rest -= part
        parts.sort(key=lambda part: (-len(part), min(part)))
        for part in parts[1:]:
            self._regroup(part, self._new(self._all.node[dqp]))

    def _reach(self, within: set[InstanceId]) -> set[InstanceId]:
        start = min(within)
        seen, todo = {start}, [start]
        while todo:
            for peer in self._all._plan.neighbours(todo.pop()):
                if peer in within and peer not in seen:
                    seen.add(peer)
                    todo.append(peer)
        return seen

    def _put_in(self, op: InstanceId, node: NodeId) -> None:
        all_ = self._all
        beside = {all_.of[peer] for peer in all_._plan.neighbours(op) if peer in all_.of}
        near = sorted((d for d in beside if all_.node[d] == node), key=lambda d: (-len(all_.operators[d]), d))
        home = near[0] if near else self._new(node)
        self._home.setdefault(op, None)
        self._enter(op, home)
        for other in near[1:]:
            self._regroup(set(all_.operators[other]), home)

    def _regroup(self, ops: set[InstanceId], home: DqpId) -> None:
        for op in sorted(ops):
            self._take_out(op)
            self._enter(op, home)

    def _enter(self, op: InstanceId, home: DqpId) -> None:
        self._touch(home)
        self._journal.put(self._all.of, op, home)
        self._journal.into(self._all.operators, home, op, None)

    def _new(self, node: NodeId) -> DqpId:
        number = self._all._last_id.get(node, 0) + 1
        self._all._last_id[node] = number
        dqp = DqpId(f"{node}#{number}")
        self._before[dqp] = None
        self._node[dqp] = node
        self._journal.put(self._all.node, dqp, node)
        return dqp

    def _edits(self, lost: dict[DqpId, set[Connection]], won: dict[DqpId, set[Connection]]) -> list[DqpEdit]:
        added: dict[DqpId, set[InstanceId]] = {}
        removed: dict[DqpId, set[InstanceId]] = {}
        for op, home in self._home.items():
            now = self._all.of.get(op)
            if now != home:
                if home is not None:
                    removed.setdefault(home, set()).add(op)
                if now is not None:
                    added.setdefault(now, set()).add(op)
        edits = []
        for dqp in sorted(self._before):
            plus, minus = added.get(dqp, set()), removed.get(dqp, set())
            wires = self._rewired(dqp, plus, minus, lost.get(dqp, set()), won.get(dqp, set()))
            if plus or minus or any(wires):
                edits.append(self._edit(dqp, plus, minus, *wires))
        return edits

    def _rewired(
        self, dqp: DqpId, plus: set[InstanceId], minus: set[InstanceId], lost: set[Connection], won: set[Connection]
    ) -> tuple[set[Connection], set[Connection]]:
        """(connections won, lost) by a sub-plan: its own instances' and all of an instance that changed home."""
        plan, placement = self._all._plan, self._all._placement
        was = self._was  # (a set minus keys would look at all of them, for each of many sub-plans)
        won = won | connections(plan, placement, (op for op in plus if op not in was))
        lost = lost | (connections(plan, placement, (op for op in minus if op not in was)) - self._wires.won)
        return won - lost, lost - won

    def _edit(
        self, dqp: DqpId, plus: set[InstanceId], minus: set[InstanceId], won: set[Connection], lost: set[Connection]
    ) -> DqpEdit:
        before, after = self._before[dqp], None
        if dqp in self._all.operators:
            after = self._all._last_version.get(dqp, 0) + 1
            self._all._last_version[dqp] = after
            self._journal.put(self._all.version, dqp, after)
        else:
            self._all._ended[dqp] = self._node[dqp]
        return DqpEdit(
            dqp, self._node[dqp], before, after, frozenset(plus), frozenset(minus), frozenset(won), frozenset(lost)
        )
