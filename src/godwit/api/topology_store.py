"""`fleet.topology`: load the ground from a file, look at it, keep it for the next start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from godwit.ids import NodeId
from godwit.model.changes import Change, DeviceAdded, LinkAdded, SiteAdded
from godwit.model.codec import decode, encode
from godwit.model.topology import Topology
from godwit.model.topology_file import load_topology
from godwit.storage.names import TOPOLOGY

if TYPE_CHECKING:
    from godwit.api.fleet import Fleet


class Ground:
    """The fleet's topology. Changes go through the fleet, because queries stand on it."""

    def __init__(self, fleet: Fleet) -> None:
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
        self._fleet.change(_missing(self.now, topology))

    def save(self, topology: Topology) -> None:
        parts = [encode(list(part.values())) for part in (topology.sites, topology.links, topology.devices)]
        self._fleet.store.put_document(TOPOLOGY, parts)

    def saved(self) -> Topology | None:
        saved = self._fleet.store.get_document(TOPOLOGY)
        if saved is None:
            return None
        sites, links, devices = (list(decode(part)) for part in saved)
        return Topology.of(sites, links, devices)


def _missing(have: Topology, want: Topology) -> Iterable[Change]:
    changes: list[Change] = [SiteAdded(s) for s in want.sites.values() if s.id not in have.sites]
    changes += [LinkAdded(link) for ends, link in want.links.items() if ends not in have.links]
    changes += [DeviceAdded(d) for d in want.devices.values() if d.id not in have.devices]
    return changes
