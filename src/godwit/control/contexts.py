"""Deployment contexts: what a node must do with one sub-plan. The unit of incremental redeployment (ISQD, Section 4).

Only touched sub-plans have contexts. An update carries the difference, not the whole operator graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from godwit.ids import DqpId, NodeId
from godwit.model.instances import InstanceId
from godwit.model.subplan import Connection, Dqp, DqpEdit


@dataclass(frozen=True)
class ToBeDeployed:
    """A new sub-plan; it starts by itself, no marker needed."""

    dqp: DqpId
    node: NodeId
    version: int
    operators: frozenset[InstanceId]
    connections: frozenset[Connection] = frozenset()


@dataclass(frozen=True)
class ToBeUpdated:
    """Other operators or other neighbours. `hands_over`: stateful instances whose state leaves with this version."""

    dqp: DqpId
    node: NodeId
    old_version: int
    version: int
    added: frozenset[InstanceId] = frozenset()
    removed: frozenset[InstanceId] = frozenset()
    connected: frozenset[Connection] = frozenset()
    disconnected: frozenset[Connection] = frozenset()
    hands_over: tuple[InstanceId, ...] = ()


@dataclass(frozen=True)
class ToBeUndeployed:
    """Flush what is in flight, then end. With `hands_over`, a last version sends the state of these instances first."""

    dqp: DqpId
    node: NodeId
    version: int
    hands_over: tuple[InstanceId, ...] = ()


DeploymentContext = ToBeDeployed | ToBeUpdated | ToBeUndeployed


def contexts(edits: Iterable[DqpEdit], moving: frozenset[InstanceId] = frozenset()) -> tuple[DeploymentContext, ...]:
    """One context for each sub-plan that was edited; `moving` are the instances whose state must follow them."""
    return tuple(_context(edit, tuple(sorted(edit.removed & moving))) for edit in edits)


def _context(edit: DqpEdit, leaving: tuple[InstanceId, ...]) -> DeploymentContext:
    if edit.before is None:
        assert edit.after is not None
        return ToBeDeployed(edit.id, edit.node, edit.after, edit.added, edit.connected)
    if edit.after is None:
        return ToBeUndeployed(edit.id, edit.node, edit.before, leaving)
    return ToBeUpdated(
        edit.id,
        edit.node,
        edit.before,
        edit.after,
        edit.added,
        edit.removed,
        edit.connected,
        edit.disconnected,
        leaving,
    )


def carry_out(dqps: Mapping[DqpId, Dqp], todo: Iterable[DeploymentContext]) -> dict[DqpId, Dqp]:
    """The sub-plans after the contexts: what a node's worker would make of them."""
    after = dict(dqps)
    for context in todo:
        match context:
            case ToBeDeployed(dqp, node, version, operators, connections):
                assert dqp not in after, f"sub-plan '{dqp}' is deployed already"
                after[dqp] = Dqp(dqp, node, version, operators, connections)
            case ToBeUndeployed(dqp, _, version, _):
                assert after[dqp].version == version, f"sub-plan '{dqp}' is not at version {version}"
                del after[dqp]
            case ToBeUpdated():
                old = after[context.dqp]
                assert old.version == context.old_version, f"sub-plan '{old.id}' is not at {context.old_version}"
                after[context.dqp] = replace(
                    old,
                    version=context.version,
                    operators=(old.operators - context.removed) | context.added,
                    connections=(old.connections - context.disconnected) | context.connected,
                )
    return after


def inverse(edits: Iterable[DqpEdit]) -> tuple[DqpEdit, ...]:
    """The edits that take the sub-plans back, versions included, newest first."""
    return tuple(
        DqpEdit(e.id, e.node, e.after, e.before, e.removed, e.added, e.disconnected, e.connected)
        for e in reversed(tuple(edits))
    )
