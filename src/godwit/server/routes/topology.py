"""Sites and links: look, and change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from godwit.control.commands import ChangeTopology, PlaceByHand
from godwit.ids import StreamId
from godwit.model.change_text import parse_changes
from godwit.model.topology_file import load_topology as parsed_topology
from godwit.server.access import Caller, Role
from godwit.server.backend import add_topology
from godwit.server.bodies import PlacementHints, TopologyChanges, TopologyText
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.service import needs, service_of
from godwit.server.values import plain_values

router = APIRouter(prefix="/v1", tags=["topology"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]


@router.get("/topology")
def topology(request: Request, caller: Reader) -> dict[str, Any]:
    """Sites, links and devices as they are now."""
    fleet = service_of(request).fleet
    now, streams = fleet.topology, fleet.deployment.streams
    # (a reference table's changes come in like a device's rows, but it is none)
    devices_only = [one for name, one in now.devices.items() if StreamId(name) not in streams]
    parts = (now.sites.values(), now.links.values(), devices_only)
    sites, links, devices = ([plain_values(one) for one in those] for those in parts)
    return {"version": now.version, "sites": sites, "links": links, "devices": devices}


@router.post("/topology")
def load(request: Request, body: TopologyText, caller: Operator) -> dict[str, Any]:
    """Add everything of a topology file that is not there yet."""
    fleet = service_of(request).fleet
    # (with a line break it is a text in any case, never the name of a file of this machine)
    add_topology(fleet, parsed_topology(f"{body.yaml}\n"))
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
