"""`fleet.topology`: load a topology from a file, look at it. It is kept in the control log, change by change."""

from __future__ import annotations

from pathlib import Path

from godwit.api.core import FleetCore
from godwit.ids import NodeId
from godwit.model.changes import Change, DeviceAdded, LinkAdded, SiteAdded
from godwit.model.topology import Topology
from godwit.model.topology_file import load_topology


class TopologyStore:
    """The fleet's topology. Changes go through the fleet, because queries stand on it."""

    def __init__(self, fleet: FleetCore) -> None:
        self._fleet = fleet

    @property
    def now(self) -> Topology:
        return self._fleet.plane.topology

    def path(self, source: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """Over which sites state goes from one to another; None: over none that are there now."""
        now = self.now
        return now.path(source, target) if now.has(source) and now.has(target) else None

    def load(self, source: str | Path) -> None:
        """Add everything in a topology file (or its text) that is not there yet."""

        self.add(load_topology(source))

    def add(self, topology: Topology) -> None:
        if new := missing(self.now, topology):
            self._fleet.change(new)


def missing(have: Topology, want: Topology) -> list[Change]:
    """What of a topology is not there yet."""
    changes: list[Change] = [SiteAdded(s) for s in want.sites.values() if s.id not in have.sites]
    changes += [LinkAdded(link) for ends, link in want.links.items() if ends not in have.links]
    changes += [DeviceAdded(d) for d in want.devices.values() if d.id not in have.devices]
    return changes
