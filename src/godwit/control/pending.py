"""What the planner's tables cannot say about the stage being made; a new one begins with every stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from godwit.ids import DeviceId
from godwit.model.global_plan import Edge, PlanEdit
from godwit.model.instances import InstanceId
from godwit.protocol.handover import Migration


@dataclass
class Pending:
    added: list[InstanceId] = field(default_factory=list)
    #: instances that are wanted elsewhere
    asked: list[InstanceId] = field(default_factory=list)
    cut: list[Edge] = field(default_factory=list)
    joined: list[Edge] = field(default_factory=list)
    #: connections whose path is gone
    broken: set[Edge] = field(default_factory=set)
    #: queries' own names whose rows may have changed
    names: set[InstanceId] = field(default_factory=set)
    #: names of stateful instances whose state is lost
    lost: set[InstanceId] = field(default_factory=set)
    sessions: dict[DeviceId, int] = field(default_factory=dict)
    #: devices that left, and of which nothing is known from this stage on
    forgotten: frozenset[DeviceId] = frozenset()
    #: keys that change region
    key_moves: list[Migration] = field(default_factory=list)

    def note(self, edit: PlanEdit) -> None:
        self.added += edit.added
        self.cut += edit.cut
        self.joined += edit.joined
