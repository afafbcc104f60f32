"""Ad-hoc state migration queries (ISQD, Section 5): the engine's own dataflow carries the state.

A migration query reads the state where the instance was (source operator), passes it from node to node (relays) and
writes it where the instance is now (sink operator). It is deployed by contexts like any query, and ends by itself.
With this strategy the new instance waits until its state is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from godwit.control.contexts import ToBeDeployed
from godwit.ids import DqpId, Epoch, NodeId, QueryId
from godwit.migration.base import HandOver, Moved, Step
from godwit.model.instances import InstanceId


def steps(moved: Moved, variant: str = "") -> Iterator[Step]:
    assert moved.source is not None
    yield HandOver(moved.instance, moved.source, moved.target, moved.path, wait=True, chunked=True)


@dataclass(frozen=True)
class MigrationQuery:
    """One migration query: an operator on every node of the path."""

    instance: InstanceId
    epoch: Epoch
    path: tuple[NodeId, ...]

    @property
    def operators(self) -> tuple[InstanceId, ...]:
        query = QueryId(f"migrate:{self.instance}:{self.epoch}")
        return tuple(InstanceId(query, k) for k in range(len(self.path)))

    def contexts(self) -> tuple[ToBeDeployed, ...]:
        """One new sub-plan for each node of the path, connected with the one before and the one after."""
        operators = self.operators
        return tuple(
            ToBeDeployed(
                DqpId(f"{node}#{operators[k]}"),
                node,
                1,
                frozenset({operators[k]}),
                frozenset(
                    (operators[k], operators[j], self.path[j]) for j in (k - 1, k + 1) if 0 <= j < len(self.path)
                ),
            )
            for k, node in enumerate(self.path)
        )


def migration_queries(steps: Iterable[Step], epoch: Epoch) -> tuple[MigrationQuery, ...]:
    """The queries that carry out the hand-overs; a state that stays on its node needs none."""
    return tuple(
        MigrationQuery(step.instance, epoch, step.path)
        for step in steps
        if isinstance(step, HandOver) and len(step.path) > 1
    )
