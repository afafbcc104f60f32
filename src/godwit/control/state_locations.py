"""Who holds state: for each stateful instance (by its query's name) the nodes that have part of it, and what is due.

These are facts about the data plane, not plans: a revert does not take them back, it announces moves in the other
direction. An instance may be handed on before its state has come; then hand-overs form a chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from godwit.ids import Epoch, NodeId
from godwit.migration.base import HandOver, ReplayState, Step
from godwit.model.instances import InstanceId
from godwit.model.validity import OnTheWay


class Custody:
    def __init__(self) -> None:
        self._holders: dict[InstanceId, dict[NodeId, None]] = {}
        self._held_at: dict[NodeId, dict[InstanceId, None]] = {}
        #: instance -> epoch -> the step announced then and not done yet
        self._open: dict[InstanceId, dict[Epoch, Step]] = {}
        #: instances that have lost state and have not made it again yet
        self.lost: set[InstanceId] = set()

    def replaying(self, name: InstanceId, target: NodeId) -> bool:
        """Whether a replay for the instance on this node is announced."""
        return any(isinstance(s, ReplayState) and s.target == target for s in self._open.get(name, {}).values())

    def holders(self, name: InstanceId) -> Iterable[NodeId]:
        return self._holders.get(name, {}).keys()

    def at(self, node: NodeId) -> list[InstanceId]:
        """The instances that lose state if the node fails."""
        return sorted(self._held_at.get(node, ()))

    def open(self) -> Iterator[tuple[InstanceId, Epoch, Step]]:
        for name, steps in self._open.items():
            for epoch, step in steps.items():
                yield name, epoch, step

    def on_the_way(self, name: InstanceId) -> list[OnTheWay]:
        return [
            OnTheWay(step.source if isinstance(step, HandOver) else None, step.target)
            for step in self._open.get(name, {}).values()
        ]

    def placed(self, name: InstanceId, node: NodeId) -> None:
        """The instance takes rows on the node from now on."""
        self._holders.setdefault(name, {})[node] = None
        self._held_at.setdefault(node, {})[name] = None

    def announced(self, step: Step, epoch: Epoch) -> None:
        if isinstance(step, ReplayState):
            # Everything is made again: what is left elsewhere, or still on its way, no longer counts.
            lost = step.instance in self.lost
            self.forget(step.instance)
            self.placed(step.instance, step.target)
            self.lost.update({step.instance} if lost else ())
        self._open.setdefault(step.instance, {})[epoch] = step

    def done(self, name: InstanceId, epoch: Epoch, home: NodeId | None) -> Step | None:
        """An announced step is done; `home` is where the instance lives now."""
        steps = self._open.get(name, {})
        step = steps.pop(epoch, None)
        if not steps:
            self._open.pop(name, None)
        if isinstance(step, ReplayState):
            self.lost.discard(name)
        if isinstance(step, HandOver) and name in self._holders:
            if step.source not in (home, step.target) and not self._expected_at(name, step.source):
                self._let_go(name, step.source)
            onward = any(isinstance(s, HandOver) and s.source == step.target for s in self._open.get(name, {}).values())
            if onward or home is None:
                self.placed(name, step.target)
            elif not self._expected_at(name, step.target):
                # The instance had moved on, inside one region, before its state came: the state is with it already.
                self._let_go(name, step.target)
                self.placed(name, home)
        return step

    def forget(self, name: InstanceId) -> None:
        for node in list(self._holders.get(name, ())):
            self._let_go(name, node)
        self._open.pop(name, None)
        self.lost.discard(name)

    def _expected_at(self, name: InstanceId, node: NodeId) -> bool:
        return any(step.target == node for step in self._open.get(name, {}).values())

    def _let_go(self, name: InstanceId, node: NodeId) -> None:
        nodes, names = self._holders.get(name, {}), self._held_at.get(node, {})
        nodes.pop(node, None)
        names.pop(name, None)
        if not nodes:
            self._holders.pop(name, None)
        if not names:
            self._held_at.pop(node, None)
