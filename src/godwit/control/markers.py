"""Reconfiguration markers: what each running sub-plan does when the marker reaches it (ISQD, Section 4.2, Algorithm 2).

A marker travels behind the last row of the old epoch. In the data plane a region's commit records carry their epoch, so
the first commit at or after the marker's epoch *is* the marker in that channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from godwit.control.contexts import DeploymentContext, ToBeDeployed, ToBeUndeployed, ToBeUpdated
from godwit.ids import DqpId, Epoch


class Action(Enum):
    DRAIN = "drain"
    UPDATE = "update"
    UPDATE_THEN_DRAIN = "update then drain"


@dataclass(frozen=True)
class MarkerEntry:
    action: Action
    #: the version that starts, for an update
    to_version: int | None = None


@dataclass(frozen=True)
class Marker:
    epoch: Epoch
    entries: Mapping[tuple[DqpId, int], MarkerEntry] = field(default_factory=dict)
    #: the sub-plans that get the marker from the coordinator; all others get it from their producers
    insert_at: tuple[DqpId, ...] = ()


@dataclass(frozen=True)
class FlushAndClose:
    dqp: DqpId
    version: int


@dataclass(frozen=True)
class Start:
    dqp: DqpId
    version: int


@dataclass(frozen=True)
class Dispatch:
    """Pass the marker on to the sub-plans downstream."""

    marker: Marker


MarkerStep = FlushAndClose | Start | Dispatch


def entries(todo: Iterable[DeploymentContext]) -> dict[tuple[DqpId, int], MarkerEntry]:
    """One entry for each running sub-plan that has a context; new ones start without."""
    found: dict[tuple[DqpId, int], MarkerEntry] = {}
    for context in todo:
        match context:
            case ToBeDeployed():
                pass
            case ToBeUpdated(dqp, _, old, new):
                found[dqp, old] = MarkerEntry(Action.UPDATE, new)
            case ToBeUndeployed(dqp, _, version, hands_over):
                # The version in between has the state source attached; it is never deployed for longer than that.
                last = MarkerEntry(Action.UPDATE_THEN_DRAIN, version + 1) if hands_over else MarkerEntry(Action.DRAIN)
                found[dqp, version] = last
    return found


def marker(epoch: Epoch, todo: Iterable[DeploymentContext], channels: Iterable[tuple[DqpId, DqpId]]) -> Marker:
    """The marker for a set of contexts.

    It is inserted at each listed sub-plan that no other listed one passes it to: at leaves, and where the link from the
    producer is gone. `channels` are the connections (from, to) of the old sub-plans that rows can still pass.
    """
    listed = entries(todo)
    ids = {dqp for dqp, _ in listed}
    reached = {to for start, to in channels if start in ids and start != to}
    return Marker(epoch, listed, tuple(sorted(ids - reached)))


def process(arrived: Marker, dqp: DqpId, version: int) -> tuple[MarkerStep, ...]:
    """Algorithm 2: what the sub-plan does when the marker arrives."""
    steps: list[MarkerStep] = []
    entry = arrived.entries.get((dqp, version))
    if entry is not None:
        steps.append(FlushAndClose(dqp, version))
        if entry.action is not Action.DRAIN:
            assert entry.to_version is not None
            steps.append(Start(dqp, entry.to_version))
        if entry.action is Action.UPDATE_THEN_DRAIN:
            assert entry.to_version is not None
            steps.append(FlushAndClose(dqp, entry.to_version))
    steps.append(Dispatch(arrived))
    return tuple(steps)
