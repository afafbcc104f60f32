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
    instruction: Publish | Revert, waiting: Iterable[Change], starts: Mapping[str, int], command: int
) -> dict[str, Any]:
    """JSON-ready. Regions carry out `delta` and `moves`: what happens to sub-plans follows from them."""
    record = {
        "version": VERSION,
        "delta": encode(instruction.delta),
        "cause": instruction.delta.cause,
        "moves": [move.to_json() for move in instruction.moves],
        "waiting": encode(list(waiting)),
        "starts": dict(starts),
        "command": command,
    }
    if isinstance(instruction, Revert):
        return {**record, "stable": int(instruction.stable), "reason": instruction.reason}
    return {
        **record,
        "stage": list(instruction.stage),
        "changes": encode(list(instruction.changes)),
        "hints": _hints(instruction),
    }


def _hints(instruction: Publish) -> dict[str, dict[str, str]]:
    """Sinks and hand placements; None is what a query that is withdrawn leaves."""
    sinks: dict[str, Any] = {}
    by_hand: dict[str, str] = {}
    for request in instruction.requests:
        match request:
            case QuerySubmitted(query, sink) if sink is not None:
                sinks[query.id] = sink
            case PlanChanged():
                sinks |= {one.query.id: one.sink for one in request.changes if one.sink is not None}
            case QueryWithdrawn(query_id):
                sinks[query_id] = None
            case PlacedByHand(placement):
                by_hand |= {str(name): str(site) for name, site in placement.items()}
    return {"sinks": sinks, "by_hand": by_hand}
