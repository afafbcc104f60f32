"""A stage: one epoch's worth of a reconfiguration, ready to be published or taken back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from godwit.control.contexts import DeploymentContext, contexts, inverse
from godwit.control.diff import Edit, backwards
from godwit.ids import DeviceId, Epoch, NodeId, QueryId
from godwit.migration.base import Moved, Step
from godwit.model.deployment import Delta
from godwit.model.instances import InstanceId
from godwit.model.subplan import DqpEdit
from godwit.protocol.handover import Instance, Migration


@dataclass(frozen=True)
class Stage:
    """What changes in one epoch. `undo` takes the rows back, `edits` say what happens to the sub-plans."""

    delta: Delta
    undo: Delta
    edits: tuple[DqpEdit, ...] = ()
    moved: tuple[Moved, ...] = ()
    steps: tuple[Step, ...] = ()
    #: instances of the global plan (not a query's own names) whose state must follow
    moving: frozenset[InstanceId] = frozenset()
    queries: tuple[QueryId, ...] = ()
    #: those of the delta's placement rows that belong to stateful instances
    stateful: tuple[InstanceId, ...] = ()
    #: stateful instances that have lost state to a failure
    lost: tuple[InstanceId, ...] = ()
    #: what moves where, in the global plan
    placement: tuple[Edit, ...] = ()
    #: all nodes that a hand-over or a context of this stage needs alive
    nodes: frozenset[NodeId] = field(default=frozenset())
    #: the stateful instances that change region (their epoch is known when the stage is published)
    moves: tuple[Migration, ...] = ()

    @cached_property
    def contexts(self) -> tuple[DeploymentContext, ...]:
        return contexts(self.edits, self.moving)

    def moves_at(self, epoch: Epoch) -> tuple[Migration, ...]:
        return tuple(replace(move, epoch=epoch) for move in self.moves)

    @property
    def empty(self) -> bool:
        return not self.edits and not self.steps and not self.moves and is_empty(self.delta)


def is_empty(delta: Delta) -> bool:
    return not any(getattr(delta, name) for name in Delta.__dataclass_fields__ if name != "cause")


def back(stages: Iterable[Stage], steps: tuple[Step, ...], moved: tuple[Moved, ...]) -> Stage:
    """The stage that takes back all of these, which were published in this order."""
    stages = list(stages)
    undo = merged(stage.undo for stage in reversed(stages))
    forward = merged(stage.delta for stage in stages)
    edits = tuple(edit for stage in reversed(stages) for edit in inverse(stage.edits))
    return Stage(
        replace(undo, cause=f"revert: {forward.cause}"),
        forward,
        edits,
        moved,
        steps,
        frozenset().union(*(stage.moving for stage in stages)),
        tuple(sorted({q for stage in stages for q in stage.queries})),
        tuple(sorted({name for stage in stages for name in stage.stateful})),
        (),
        tuple(backwards(edit) for stage in reversed(stages) for edit in reversed(stage.placement)),
        frozenset().union(*(stage.nodes for stage in stages)),
        _moves_back(stages),
    )


def _moves_back(stages: Iterable[Stage]) -> tuple[Migration, ...]:
    """From where each instance is after all stages to where it was before them."""
    first: dict[Instance, Migration] = {}
    last: dict[Instance, Migration] = {}
    for move in (move for stage in stages for move in stage.moves):
        first.setdefault(move.instance, move)
        last[move.instance] = move
    back = [
        Migration(Epoch(0), *i, last[i].target, first[i].source, last[i].to_site, first[i].from_site)
        for i in sorted(first)
    ]
    return tuple(move for move in back if move.source != move.target)


def merged(deltas: Iterable[Delta]) -> Delta:
    """All deltas as one: where they disagree, the later counts."""
    tables: dict[str, dict[Any, Any]] = {
        f.name: {} for f in fields(Delta) if f.name not in ("gone", "forgotten", "cause")
    }
    gone: set[DeviceId] = set()
    forgotten: frozenset[DeviceId] = frozenset()
    cause = ""
    for delta in deltas:
        for name, table in tables.items():
            table.update(getattr(delta, name))
        gone = (gone - delta.devices.keys()) | delta.gone
        for device in delta.gone:
            tables["devices"].pop(device, None)
        forgotten |= delta.forgotten
        cause = delta.cause or cause
    return Delta(**tables, gone=frozenset(gone), forgotten=forgotten, cause=cause)
