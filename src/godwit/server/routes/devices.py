"""Devices: where they are and what they feed; hand-overs, by name or by position."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from godwit.control.commands import ChangeTopology, Connect
from godwit.ids import DeviceId
from godwit.model.changes import DeviceMoved, DeviceRemoved
from godwit.model.topology import Device
from godwit.server.access import Caller, Role
from godwit.server.arrivals import move
from godwit.server.bodies import Connection, Position, SiteOfDevice
from godwit.server.commands import CommandSent, Wait, send
from godwit.server.problems import not_found, refused
from godwit.server.service import Service, needs, service_of
from godwit.server.values import plain_values

router = APIRouter(prefix="/v1/devices", tags=["devices"])
Reader = Annotated[Caller, Depends(needs(Role.READ))]
Feeder = Annotated[Caller, Depends(needs(Role.FEED))]
Operator = Annotated[Caller, Depends(needs(Role.OPERATE))]


@router.get("")
def devices(request: Request, caller: Reader) -> list[dict[str, Any]]:
    """All devices: where each is attached, and what it feeds."""
    service = service_of(request)
    return [_described(service, known) for _, known in sorted(service.fleet.topology.devices.items())]


@router.get("/{device}")
def device(request: Request, device: str, caller: Reader) -> dict[str, Any]:
    """One device: where it is attached, and what it feeds."""
    service = service_of(request)
    return _described(service, _known(service, device))


@router.put("/{device}")
def connect(request: Request, device: str, body: Connection, caller: Feeder, wait: Wait = True) -> CommandSent:
    """Attach a device to a site (a hand-over, if it was at another), and say what it feeds."""
    _check(request, caller, device)
    if caller.streams is not None and not set(body.streams) <= set(caller.streams):
        raise refused(403, f"token '{caller.name}' may feed {', '.join(caller.streams)} only")
    return send(request, Connect(device, body.site, tuple(body.streams)), wait)


@router.delete("/{device}")
def remove(request: Request, device: str, caller: Operator, wait: Wait = True) -> CommandSent:
    """It is gone for good: no clock waits for it any longer."""
    known = _known(service_of(request), device)
    return send(request, ChangeTopology((DeviceRemoved(known.id),)), wait)


@router.post("/{device}/detach")
def detach(request: Request, device: str, caller: Feeder, wait: Wait = True) -> CommandSent:
    """Out of reach: its clock stands still."""
    _check(request, caller, device)
    known = _known(service_of(request), device)
    return send(request, ChangeTopology((DeviceMoved(known.id, None),)), wait)


@router.post("/{device}/position")
async def position(request: Request, device: str, body: Position, caller: Feeder) -> dict[str, Any]:
    """A position report: the device is attached to the nearest site, with hysteresis."""
    service = service_of(request)
    _check(request, caller, device)
    site = service.locator.at(DeviceId(device), body.lat, body.lon, body.hysteresis_m)
    if site is not None:
        await move(service, caller, DeviceId(device), site)
    known = service.fleet.topology.devices.get(DeviceId(device))
    return {"device": device, "site": site or (None if known is None else known.site), "moved": site is not None}


@router.post("/{device}/handover")
def handover(request: Request, device: str, body: SiteOfDevice, caller: Operator) -> dict[str, Any]:
    """The network says that a source is attached to another site: its rows come in there, and its keys follow it."""
    service = service_of(request)
    service.fleet.notify_handover(_known(service, device).id, body.site)
    return {"device": device, "site": body.site}


@router.post("/{device}/close")
def close(request: Request, device: str, caller: Feeder) -> dict[str, Any]:
    """Nothing more will come from it: no clock waits for it any longer. It begins again by sending."""
    _check(request, caller, device)
    service = service_of(request)
    service.fleet.close_device(_known(service, device).id)
    return {"device": device}


@router.post("/{device}/reset-clock")
def reset_clock(request: Request, device: str, caller: Feeder) -> dict[str, Any]:
    """Its clock was wrong: its watermark is what it sends from now on."""
    _check(request, caller, device)
    service = service_of(request)
    service.fleet.reset_clock(_known(service, device).id)
    return {"device": device}


def _check(request: Request, caller: Caller, device: str) -> None:
    if (wrong := caller.attaching_refusal(device)) is not None:
        service_of(request).refuse_log(request, wrong)
        raise refused(403, wrong)


def _known(service: Service, device: str) -> Device:
    devices = service.fleet.topology.devices
    if DeviceId(device) not in devices:
        raise not_found(device, "device", sorted(devices))
    return devices[DeviceId(device)]


def _described(service: Service, known: Device) -> dict[str, Any]:
    """`site`: where it is said to be; `current`: where the regions that run take its rows in."""
    now = service.fleet.deployment
    streams = [stream for stream, devices in now.feeds.items() if known.id in devices]
    site = now.devices.get(known.id)
    current = {"site": site, "region": None if site is None else now.sites.get(site)}
    return {**plain_values(known), "streams": streams, "desired": {"site": known.site}, "current": current}
