"""Sites, links and devices: look, and change."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from godwit.control.commands import ChangeTopology, Connect, PlaceByHand
from godwit.ids import DeviceId
from godwit.model.change_text import parse_changes
from godwit.server.access import Caller, Role
from godwit.server.bodies import Connection, PlacementHints, TopologyChanges, TopologyText
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.problems import not_found, refused
from godwit.server.service import needs, service_of

router = APIRouter(prefix="/v1", tags=["topology"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Feeder = Annotated[Caller, Depends(needs(Role.FEED))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]


@router.get("/topology")
def topology(request: Request, caller: Reader) -> dict[str, Any]:
    """Sites, links and devices as they are now."""
    now = service_of(request).fleet.topology.now
    parts = (now.sites.values(), now.links.values(), now.devices.values())
    sites, links, devices = ([_plain(asdict(one)) for one in those] for those in parts)
    return {"version": now.version, "sites": sites, "links": links, "devices": devices}


@router.post("/topology")
def load(request: Request, body: TopologyText, caller: Operator) -> dict[str, Any]:
    """Add everything of a topology file that is not there yet."""
    service_of(request).fleet.topology.load(body.yaml)
    return topology(request, caller)


@router.post("/changes")
def change(
    request: Request, body: TopologyChanges, caller: Operator, wait: Wait = True, dry_run: bool = False
) -> CommandSent | dict[str, str]:
    """Change the topology; with `dry_run`, say what it would do."""
    changes = parse_changes(body.changes)
    if dry_run:
        return {"explanation": service_of(request).fleet.explain_change(changes)}
    return send(request, ChangeTopology(tuple(changes)), wait)


@router.post("/placement")
def place(request: Request, body: PlacementHints, caller: Operator, wait: Wait = True) -> CommandSent:
    """Put operators on sites by hand: they stay there as long as the sites can host them."""
    return send(request, PlaceByHand(body.placement, body.cause), wait)


@router.get("/devices/{device}")
def device(request: Request, device: str, caller: Reader) -> dict[str, Any]:
    fleet = service_of(request).fleet
    known = fleet.topology.now.devices.get(DeviceId(device))
    if known is None:
        raise not_found(device, "device", sorted(fleet.topology.now.devices))
    streams = [stream for stream, devices in fleet.deployment.feeds.items() if device in devices]
    return {**_plain(asdict(known)), "streams": streams}


@router.put("/devices/{device}")
def connect(request: Request, device: str, body: Connection, caller: Feeder, wait: Wait = True) -> CommandSent:
    """Attach a device to a site (a hand-over, if it was at another), and say what it feeds."""
    if (wrong := caller.attaching_refusal(device)) is not None:
        service_of(request).refuse_log(request, wrong)
        raise refused(403, wrong)
    if caller.streams is not None and not set(body.streams) <= set(caller.streams):
        raise refused(403, f"token '{caller.name}' may feed {', '.join(caller.streams)} only")
    return send(request, Connect(device, body.site, tuple(body.streams)), wait)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """For JSON, which has no infinity: None is no limit."""
    return {k: None if isinstance(v, float) and math.isinf(v) else _listed(v) for k, v in value.items()}


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value
