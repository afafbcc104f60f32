"""Which rows of the sources made an instance's state: what recreation has to read again, and not a row more.

Every region notes, when it takes in the epoch of a move, how far it has read: its *cut*. Rows that it worked through
before went to the old owner, later ones go to the new. One thing spoils it: a region may send rows on before they have
passed all operators below the instance; the old owner works these through, and if it has heard of the move by then, it
passes them on to the new owner.

Where that may have happened, where rows waited because the query had no place, carry the epoch they came in under or
are no longer kept, and where another stateful operator lies below, the state is sent after all: `ranges` says None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.ids import DeviceId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.plan import Plan, Query
from godwit.protocol.handover import Migration
from godwit.region.state import Room
from godwit.storage.epoch_log import Control
from godwit.storage.log import Record
from godwit.storage.names import source_log
from godwit.storage.store import Store


def seen(record: Record) -> Record:
    """What a reader must remember of another region's commit; the same of its message."""
    return {"epoch": record["epoch"], "sources": _sources(record["positions"])}


def cut(
    positions: Mapping[str, int], begun: Mapping[str, Any], heard: Mapping[str, Record], rooms: Iterable[Room]
) -> Record:
    """How far a region had read when it took in an epoch: its sources, and (`heard`) the others' commits."""
    parked = sorted({room.query for room in rooms if room.kind == "parked"})
    return {"sources": _sources(positions), "begun": dict(begun), "seen": dict(heard), "parked": parked}


def ranges(
    store: Store, control: Control, query: Query, move: Migration, cuts: Mapping[RegionId, Record]
) -> dict[str, list[Record]] | None:
    """region -> what to read of each of its source logs; None: the state must be sent."""
    plan = query.shape.plan
    parked = any(query.id in theirs["parked"] for theirs in cuts.values())  # read, but never sent on
    if parked or move.source not in cuts or _stateful_below(plan, move.operator):
        return None
    found: dict[str, list[Record]] = {}
    for region, theirs in cuts.items():
        for scan in plan.scans_below(move.operator):
            one = _range(store, control, query, move, region, scan, theirs, cuts[move.source])
            if one is None:
                return None
            found.setdefault(region, []).append(one)
    return found


def _range(
    store: Store,
    control: Control,
    query: Query,
    move: Migration,
    region: RegionId,
    scan: int,
    theirs: Record,
    owners: Record,
) -> Record | None:
    stream = dict(query.shape.plan.scans)[scan].stream
    name = f"source:{scan}:{stream}"
    begin = int(theirs["begun"].get(query.id, {}).get(name, 0))
    direct = int(theirs["sources"].get(name, 0))
    read = owners["seen"].get(region, {"epoch": int(move.epoch) - 1, "sources": {}})
    via = direct if region == move.source else int(read["sources"].get(name, 0))
    if direct > begin and store.log(source_log(region, stream)).first - 1 > begin:
        return None
    if via < direct:
        for epoch in range(max(int(read["epoch"]), 1), int(move.epoch)):
            deployment = control.deployment_at(epoch)
            everybody = frozenset(deployment.devices_of(query, scan))
            if _direct(deployment, query, move.operator, scan, region) != everybody:
                return None
    return {"scan": scan, "stream": stream, "from": begin, "to": direct}


def _direct(deployment: Deployment, query: Query, operator: int, scan: int, region: RegionId) -> frozenset[DeviceId]:
    """The devices whose rows, if they are read in a region, pass all operators below the instance there."""
    query = deployment.queries.get(query.id, query)
    devices = deployment.devices_of(query, scan)
    return frozenset(d for d in devices if _passes(deployment, query, operator, scan, region, d))


def _passes(deployment: Deployment, query: Query, operator: int, at: int, region: RegionId, device: DeviceId) -> bool:
    consumer, _ = query.shape.plan.consumer(at)
    while consumer != operator:
        if deployment.route(query, consumer, device, region).only != region:
            return False
        consumer, _ = query.shape.plan.consumer(consumer)
    return True


def _stateful_below(plan: Plan, operator: int) -> bool:
    return any(
        plan.operators[child].stateful or _stateful_below(plan, child) for child in plan.operators[operator].inputs
    )


def _sources(positions: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in positions.items() if name.startswith("source:")}


def outstanding(cuts: Mapping[int, Any], moves: list[Migration]) -> dict[int, Any]:
    """The cuts that somebody still has to send along."""
    epochs = {int(move.epoch) for move in moves}
    return {epoch: known for epoch, known in cuts.items() if epoch in epochs}
