"""The reconfigurations of a fleet that moved state to another region, from its history: bytes and durations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from godwit.ids import NodeId
from godwit.model.topology import Topology


@dataclass(frozen=True)
class StateMove:
    """One reconfiguration that took instances to another region."""

    #: wall seconds of its publication
    at: float
    #: of the state that went along; 0: the instances held none
    bytes: int
    #: until every region worked under it
    in_force_ms: float
    #: until the last of the state was part of its new owner's commit; None: it was still under way at the end
    state_ms: float | None


def state_moves(history: Iterable[Mapping[str, Any]], topology: Topology, since: float = 0.0) -> list[StateMove]:
    """Those from a moment on; moves within a region leave the state where it is, in the region's log."""
    found = []
    for record in history:
        far = [m for m in record["migrations"] if m["source"] is not None and _changes_region(m, topology)]
        if far and record["at"] >= since and record["outcome"] == "committed":
            arrived = [m["seconds"] for m in far if m["seconds"] is not None]
            took = max(arrived) * 1000 if len(arrived) == len(far) else None
            in_force = record["phases"].get("acknowledge", 0.0) * 1000
            found.append(StateMove(record["at"], sum(m["bytes"] or 0 for m in far), in_force, took))
    return found


def _changes_region(migration: Mapping[str, Any], topology: Topology) -> bool:
    return topology.region_of(NodeId(migration["source"])) != topology.region_of(NodeId(migration["target"]))
