"""The record of an epoch: what the coordinator instructs, as regions, `history` and a restart read it. Versioned.

delta        rows of the deployment tables
moves        stateful instances that change region: what regions hand over
changes      what has happened to the topology; waiting: changes that were accepted and are in no epoch yet
hints        sinks and hand placements that users have asked for
starts       where source logs stood, for queries that begin
command      the last command that was taken in; stable: for a revert, the epoch it goes back to
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.control.events import PlacedByHand, PlanChanged, Publish, QuerySubmitted, QueryWithdrawn, Revert
from godwit.model.changes import Change
from godwit.model.codec import encode

VERSION = 3


def epoch_record(
    told: Publish | Revert, waiting: Iterable[Change], starts: Mapping[str, int], command: int
) -> dict[str, Any]:
    """JSON-ready. Regions carry out `delta` and `moves`: what happens to sub-plans follows from them."""
    record = {
        "version": VERSION,
        "delta": encode(told.delta),
        "cause": told.delta.cause,
        "moves": [move.to_json() for move in told.moves],
        "waiting": encode(list(waiting)),
        "starts": dict(starts),
        "command": command,
    }
    if isinstance(told, Revert):
        return {**record, "stable": int(told.stable), "reason": told.reason}
    return {**record, "stage": list(told.stage), "changes": encode(list(told.changes)), "hints": _hints(told)}


def _hints(told: Publish) -> dict[str, dict[str, str]]:
    """Sinks and hand placements; None is what a query that is withdrawn leaves."""
    sinks: dict[str, Any] = {}
    by_hand: dict[str, str] = {}
    for request in told.requests:
        match request:
            case QuerySubmitted(query, sink) if sink is not None:
                sinks[query.id] = sink
            case PlanChanged(_, query, sink) if sink is not None:
                sinks[query.id] = sink
            case QueryWithdrawn(query_id):
                sinks[query_id] = None
            case PlacedByHand(placement):
                by_hand |= {str(name): str(site) for name, site in placement.items()}
    return {"sinks": sinks, "by_hand": by_hand}
