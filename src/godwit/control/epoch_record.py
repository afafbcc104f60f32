"""The record of an epoch: what the coordinator instructs, as regions, `history` and a restart read it. Versioned.

delta        rows of the deployment tables
moves        stateful instances that change region: what regions hand over
contexts     by region: what happens to its sub-plans;  migrations, marker: as in ISQD
changes      what has happened to the topology; waiting: changes that were accepted and are in no epoch yet
hints        sinks and hand placements that users have asked for
starts       where source logs stood, for queries that begin
command      the last command that was taken in; stable: for a revert, the epoch it goes back to
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.control.events import PlacedByHand, Publish, QuerySubmitted, QueryWithdrawn, Revert
from godwit.control.markers import Marker
from godwit.ids import NodeId, RegionId
from godwit.model.changes import Change
from godwit.model.codec import encode
from godwit.model.deployment import Deployment

VERSION = 2


def epoch_record(
    told: Publish | Revert,
    before: Deployment,
    after: Deployment,
    waiting: Iterable[Change],
    starts: Mapping[str, int],
    command: int,
) -> dict[str, Any]:
    """JSON-ready."""
    record = {
        "version": VERSION,
        "delta": encode(told.delta),
        "cause": told.delta.cause,
        "moves": [move.to_json() for move in told.moves],
        "contexts": _contexts(told, before, after),
        "migrations": [[str(query.instance), list(query.path)] for query in told.migrations],
        "marker": _marker(told.marker),
        "waiting": encode(list(waiting)),
        "starts": dict(starts),
        "command": command,
    }
    if isinstance(told, Revert):
        return {**record, "stable": int(told.stable), "reason": told.reason}
    return {**record, "stage": list(told.stage), "changes": encode(list(told.changes)), "hints": _hints(told)}


def _contexts(told: Publish | Revert, before: Deployment, after: Deployment) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for context in told.contexts:
        region = _region(context.node, after) or _region(context.node, before) or ""
        found.setdefault(region, []).append(encode(context))
    return found


def _region(node: NodeId, deployment: Deployment) -> RegionId | None:
    return deployment.region_of(node)


def _marker(marker: Marker) -> dict[str, Any]:
    entries = [[dqp, version, e.action.value, e.to_version] for (dqp, version), e in marker.entries.items()]
    return {"insert_at": list(marker.insert_at), "entries": entries}


def _hints(told: Publish) -> dict[str, dict[str, str]]:
    """Sinks and hand placements; None is what a query that is withdrawn leaves."""
    sinks: dict[str, Any] = {}
    by_hand: dict[str, str] = {}
    for request in told.requests:
        match request:
            case QuerySubmitted(query, sink) if sink is not None:
                sinks[query.id] = sink
            case QueryWithdrawn(query_id):
                sinks[query_id] = None
            case PlacedByHand(placement):
                by_hand |= {str(name): str(site) for name, site in placement.items()}
    return {"sinks": sinks, "by_hand": by_hand}
