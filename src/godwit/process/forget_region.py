"""Write off a region whose process is gone for good: what it had goes to the others, and nobody waits for it any more.

Its logs are in the store, so that nothing that it had taken in is lost: its sites are taken out of the topology, a
process is started under its name once more, here, which hands over what it had, and then the name is free. What nobody
can hand over is said: devices that are attached nowhere now, and queries that found no other place.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from godwit.errors import ConfigError, DeploymentError
from godwit.ids import DeviceId, QueryId, RegionId, SiteId
from godwit.model.changes import SiteRemoved
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
    #: attached nowhere now: what waits for their rows goes on when they are attached elsewhere, or removed
    devices: tuple[DeviceId, ...]
    #: queries that have no place any more, with the reason
    parked: dict[QueryId, str]

    def text(self) -> str:
        lines = [f"region '{self.region}' is forgotten; what it had taken in was handed over"]
        lines.append("(experimental: look at your results, later windows may be missing)")
        if self.sites:
            lines.append(f"sites that are gone: {', '.join(self.sites)}")
        if self.devices:
            lines.append(f"attached nowhere now: {', '.join(self.devices)}; move them to another site, or remove them")
        return "\n".join([*lines, *(f"query '{query}' waits: {why}" for query, why in self.parked.items())])


def forget_region(
    fleet: ConnectedFleet, name: str, *, say: Callable[[str], None] = lambda text: None, timeout: float = 300.0
) -> ForgottenRegion:
    """ConfigError: there is no such region; DeploymentError: it runs, or is the only one."""
    region, sites = _checked(fleet, name)
    devices = [device for device, at in fleet.deployment.devices.items() if at in sites]
    with tempfile.TemporaryDirectory(prefix="godwit-forget-") as folder:
        # (it hands over and tidies nothing: whether the region kept its rows for ever is not known here)
        spec = FleetFile(fleet.url, (RegionSpec(name, keep=True),), run_folder=Path(folder))
        launcher = Launcher(spec, token=fleet.token)
        say(f"a process under the name '{name}' is started here, to hand over what it had")
        launcher.start_region(spec.regions[0])
        launcher.joined()
        try:
            if sites:
                fleet.change(SiteRemoved(site) for site in sites)
            fleet.process_available(timeout)
        finally:
            launcher.signal(name, signal.SIGTERM)
            launcher.gone(name)
    for document in (region_document(name), f"{region_document(name)}/followed"):
        fleet.store.delete_document(document)
    left = tuple(device for device in devices if fleet.deployment.devices.get(device) is None)
    return ForgottenRegion(region, sites, left, dict(fleet.deployment.parked))


def _checked(fleet: ConnectedFleet, name: str) -> tuple[RegionId, tuple[SiteId, ...]]:
    known, region = fleet.regions(), RegionId(name)
    if region not in known:
        msg = f"no process was ever region '{name}'; there are {', '.join(known) or 'none'}"
        raise ConfigError(msg)
    if (who := holder_of(fleet.store, region_document(name))) is not None:
        msg = f"region '{name}' runs (process {who.get('pid', '?')} on {who.get('host', '?')}); stop it first"
        raise DeploymentError(msg)
    others = [one for one, member in known.items() if one != region and not member.left]
    if not others:
        msg = f"region '{name}' is the only one: nobody could take over what it has"
        raise DeploymentError(msg)
    return region, tuple(sorted(site for site, at in fleet.deployment.sites.items() if at == region))
