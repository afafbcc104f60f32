"""Write off a region whose process is gone for good: what it had goes to the others, and nobody waits for it any more.

Its logs are in the store, so that nothing that it had taken in is lost: its sites are taken out of the topology, a
process is started under its name once more, here, which hands over what it had, and then the name is free. Its devices
must be attached elsewhere before: that their sessions are over is for the region to say in which they were, and until
somebody says it no window closes. Queries that found no other place are named.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from godwit.errors import ConfigError, DeploymentError
from godwit.ids import DeviceId, QueryId, RegionId, SiteId
from godwit.model.changes import Change, DeviceMoved, SiteRemoved
from godwit.process.connect import ConnectedFleet
from godwit.process.fleet_file import FleetFile, RegionSpec
from godwit.process.launcher import Launcher
from godwit.process.members import region_document
from godwit.storage.open_store import holder_of


@dataclass(frozen=True)
class ForgottenRegion:
    """What has become of it."""

    region: RegionId
    sites: tuple[SiteId, ...]
    #: that were moved elsewhere for it
    devices: tuple[DeviceId, ...]
    #: queries that have no place any more, with the reason
    parked: dict[QueryId, str]

    def text(self) -> str:
        lines = [f"region '{self.region}' is forgotten; what it had taken in was handed over"]
        if self.sites:
            lines.append(f"sites that are gone: {', '.join(self.sites)}")
        if self.devices:
            lines.append(f"devices that were moved: {', '.join(self.devices)}")
        return "\n".join([*lines, *(f"query '{query}' waits: {why}" for query, why in self.parked.items())])


def forget_region(
    fleet: ConnectedFleet,
    name: str,
    *,
    devices_to: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    timeout: float = 300.0,
) -> ForgottenRegion:
    """`devices_to`: the site for its devices. ConfigError: there is no such region; DeploymentError: it runs, is the
    only one, or has devices that nobody has moved."""
    region, sites = _checked(fleet, name)
    moves = _moves(fleet, region, devices_to)
    with tempfile.TemporaryDirectory(prefix="godwit-forget-") as folder:
        # (it hands over and tidies nothing: whether the region kept its rows for ever is not known here)
        spec = FleetFile(fleet.url, (RegionSpec(name, keep=True),), run_folder=Path(folder))
        launcher = Launcher(spec, token=fleet.token)
        say(f"a process under the name '{name}' is started here, to hand over what it had")
        launcher.start_region(spec.regions[0])
        launcher.joined()
        try:
            changes: list[Change] = [*moves, *(SiteRemoved(site) for site in sites)]
            if changes:
                fleet.change(changes)
            fleet.process_available(timeout)
        finally:
            launcher.signal(name, signal.SIGTERM)
            launcher.gone(name)
    for document in (region_document(name), f"{region_document(name)}/followed"):
        fleet.store.delete_document(document)
    return ForgottenRegion(region, sites, tuple(move.device for move in moves), dict(fleet.deployment.parked))


def _moves(fleet: ConnectedFleet, region: RegionId, devices_to: str | None) -> list[DeviceMoved]:
    """Of the devices whose session is there: attached to one of its sites, or to none since they were."""
    now = fleet.deployment
    devices = sorted(device for device in now.devices if now.stays.get(device) == region)
    if devices_to is not None:
        if now.sites.get(SiteId(devices_to), region) == region:
            others = ", ".join(sorted(site for site, at in now.sites.items() if at != region))
            msg = f"no site '{devices_to}' in another region; there are {others}"
            raise ConfigError(msg)
        return [DeviceMoved(device, SiteId(devices_to)) for device in devices]
    if devices:
        some = ", ".join(devices[:5]) + (", ..." if len(devices) > 5 else "")
        msg = (
            f"{len(devices)} devices of region '{region}' are attached nowhere else ({some}): only it can say that "
            "they sent all there. Move all of them (--devices-to SITE), or move or remove each first"
        )
        raise DeploymentError(msg)
    return []


def _checked(fleet: ConnectedFleet, name: str) -> tuple[RegionId, tuple[SiteId, ...]]:
    known, region = fleet.regions(), RegionId(name)
    if region not in known:
        msg = f"no process was ever region '{name}'; there are {', '.join(known) or 'none'}"
        raise ConfigError(msg)
    if (who := holder_of(fleet.store, region_document(name))) is not None:
        msg = f"region '{name}' runs (process {who.get('pid', '?')} on {who.get('host', '?')}); stop it first"
        raise DeploymentError(msg)
    others = {one: member for one, member in known.items() if one != region}
    if all(member.left for member in others.values()):
        why = f"start one first ({', '.join(others)})" if others else "there is no other"
        msg = f"no other region runs that could take over what '{name}' has; {why}"
        raise DeploymentError(msg)
    return region, tuple(sorted(site for site, at in fleet.deployment.sites.items() if at == region))
