"""Old placement, new placement -> a list of small frozen edits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from godwit.ids import NodeId
from godwit.model.instances import InstanceId


@dataclass(frozen=True)
class Insert:
    instance: InstanceId
    node: NodeId


@dataclass(frozen=True)
class Remove:
    instance: InstanceId
    node: NodeId


@dataclass(frozen=True)
class MoveEdit:
    instance: InstanceId
    source: NodeId
    target: NodeId


Edit = Insert | Remove | MoveEdit


def diff(old: Mapping[InstanceId, NodeId | None], new: Mapping[InstanceId, NodeId | None]) -> tuple[Edit, ...]:
    """The edits that take one placement to the other, in order of instance names; what is equal has none."""
    edits: list[Edit] = []
    for instance in sorted({*old, *new}):
        was, now = old.get(instance), new.get(instance)
        if was == now:
            continue
        if was is None:
            assert now is not None
            edits.append(Insert(instance, now))
        elif now is None:
            edits.append(Remove(instance, was))
        else:
            edits.append(MoveEdit(instance, was, now))
    return tuple(edits)


def backwards(edit: Edit) -> Edit:
    """The edit that takes this one back."""
    match edit:
        case Insert(instance, node):
            return Remove(instance, node)
        case Remove(instance, node):
            return Insert(instance, node)
        case MoveEdit(instance, source, target):
            return MoveEdit(instance, target, source)


def describe(edit: Edit) -> str:
    match edit:
        case Insert(instance, node):
            return f"put   {instance} on {node}"
        case Remove(instance, node):
            return f"take  {instance} off {node}"
        case MoveEdit(instance, source, target):
            return f"move  {instance} from {source} to {target}"


def patch(placement: Mapping[InstanceId, NodeId], edits: tuple[Edit, ...]) -> dict[InstanceId, NodeId]:
    """The placement after the edits."""
    after = dict(placement)
    for edit in edits:
        match edit:
            case Insert(instance, node) | MoveEdit(instance, _, node):
                after[instance] = node
            case Remove(instance, _):
                del after[instance]
    return after
