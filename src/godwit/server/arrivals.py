"""Rows that arrive from devices: who may send them, where the device is, and that they are durable when it is said so.

Rows that come from another site's address (`?site=`, or the header `Godwit-Site` that a site's own proxy sets), or with
a position that lies nearer to another site, are a hand-over first. A repeat says where its device was then, and moves
nobody.
"""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from godwit import names
from godwit.control.commands import Connect
from godwit.delivery.json_rows import plain
from godwit.errors import SourceError
from godwit.ids import DeviceId, SiteId, StreamId
from godwit.ingest.row_formats import parse
from godwit.ingest.together import Parcel
from godwit.model.plan import Stream
from godwit.server.access import Caller
from godwit.server.problems import refused
from godwit.server.service import Service

SITE = "godwit-site"
#: bodies up to this size (bytes) are parsed where they arrive: handing them to a thread takes longer
FEW_BYTES = 20_000
#: limit of dead letters in an answer; `/v1/dead-letters` has all
MOST_TOLD = 20


def check_feeder(service: Service, connection: HTTPConnection, caller: Caller, stream: str, device: str | None) -> None:
    if (wrong := caller.feeding_refusal(stream, device)) is not None:
        service.refuse_log(connection, wrong)
        raise refused(403, wrong)


def check_room(service: Service, stream: str) -> None:
    if (behind := service.unread(stream)) > service.limits.unread:
        msg = f"'{stream}' is {behind} entries ahead of its readers; send again a little later"
        raise refused(429, msg, **{"Retry-After": "1"})


async def parsed(body: bytes, kind: str, stream: Stream) -> Any:
    return parse(body, kind, stream) if len(body) <= FEW_BYTES else await run_in_threadpool(parse, body, kind, stream)


async def take(service: Service, caller: Caller, parcel: Parcel, site: str | None) -> bool:
    """Whether the rows were taken, once they are durable; False: they were before."""
    if (site is not None or service.positions is not None) and not await _settled(service, caller, parcel, site):
        return False
    taken = await service.inlet.push(parcel)
    if taken is None:  # it cannot go with the others: alone, it gets its own answer
        taken = await run_in_threadpool(service.fleet.push, parcel)
    return taken


def outcome(parcel: Parcel, taken: bool) -> dict[str, Any]:
    """What its sender is told: rows taken now, dead letters and why, columns that were left out."""
    answer: dict[str, Any] = {"taken": taken, "rows": len(parcel.rows) - len(parcel.dead) if taken else 0}
    if parcel.dead:
        answer |= {"dead": len(parcel.dead), "dead_letters": [plain(one) for one in parcel.dead[:MOST_TOLD]]}
    if parcel.unknown:
        answer["unknown_columns"] = parcel.unknown
    return answer


async def _settled(service: Service, caller: Caller, parcel: Parcel, site: str | None) -> bool:
    """Move the device if what it sends says so; False: it is a repeat."""
    device = parcel.device
    if device is None:
        if site is None:
            return True
        msg = "rows from a site's address must be of one device; say which with ?device="
        raise SourceError(msg)
    if parcel.sequence is not None and service.fleet.is_known(parcel.stream, device, parcel.sequence):
        return False
    wanted = service.locator.moved_to(device, parcel.rows, site)
    if wanted is not None:
        await move(service, caller, device, wanted, parcel.stream)
    return True


async def move(
    service: Service, caller: Caller, device: DeviceId, site: SiteId, stream: StreamId | None = None
) -> None:
    """A device has turned up at a site."""
    if (wrong := caller.attaching_refusal(device)) is not None:
        raise refused(403, wrong)
    names.check("device", str(device), SourceError)
    command = Connect(str(device), str(site), () if stream is None else (stream,))
    await run_in_threadpool(service.fleet.execute, command)
