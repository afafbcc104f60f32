"""How much state each instance holds, counted from the segments that the newest commit names, without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from godwit.errors import MissingFileError
from godwit.ids import QueryId, RegionId
from godwit.model.deployment import Deployment
from godwit.model.instances import instance_id
from godwit.model.signature import StateKey
from godwit.storage.overlays import rows_by_query
from godwit.storage.state_memory import StateMemory


@dataclass(frozen=True)
class InstanceStatus:
    """The state of an operator of a query, in the region that holds it."""

    instance: str
    region: str
    #: where it is placed now; its state may still be on the way there
    site: str
    rows: int
    #: of its share in the files, which it has together with other queries
    bytes: int


def instances(deployment: Deployment, region: RegionId, memory: StateMemory) -> list[InstanceStatus]:
    """The instances whose state a region holds after a commit, in order."""
    rows: dict[tuple[str, int], int] = {}
    size: dict[tuple[str, int], float] = {}
    for name, found in memory.states.items():
        signature = StateKey.parse(name).signature
        for segment in found:
            try:
                counts = rows_by_query(segment)
            except MissingFileError:
                continue  # a newer commit has done with it
            for query, count in counts.items():
                if (known := deployment.queries.get(QueryId(query))) is None or signature not in known.shape.signatures:
                    continue  # of a query that runs no more
                key = (query, known.shape.signatures.index(signature))
                rows[key] = rows.get(key, 0) + count
                size[key] = size.get(key, 0.0) + segment.bytes * count / max(segment.rows, 1)
    told = []
    for (query, number), count in sorted(rows.items()):
        instance = instance_id(query, number)  # type: ignore[arg-type]
        site = str(deployment.placement.get(instance, "-"))
        told.append(InstanceStatus(str(instance), region, site, count, round(size[query, number])))
    return told
