"""The queue of topology changes: checked when they come, taken batch by batch, folded where they cancel out.

`fold` keeps the final topology. It leaves out what has no effect in the end: a link that comes and goes, a device that
moves on or back, all but the last of several capacities. It never leaves out a failure, because what was lost stays
lost even if the site is back a moment later.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from godwit.ids import DeviceId, SiteId
from godwit.model.changes import (
    CapacityChanged,
    Change,
    DeviceAdded,
    DeviceMoved,
    DeviceRemoved,
    LinkAdded,
    LinkRemoved,
    SiteAdded,
    SiteFailed,
    SiteRemoved,
    apply,
)
from godwit.model.topology import Topology


class Monitor:
    """Changes that wait, and the topology as it is once all of them have happened."""

    def __init__(self, topology: Topology) -> None:
        self.latest = topology
        self._waiting: list[Change] = []

    def add(self, changes: Iterable[Change]) -> None:
        """Queue changes; TopologyError if one does not fit what is there by then, and then none is queued."""
        changes = list(changes)
        self.latest = apply(self.latest, changes)
        self._waiting.extend(changes)

    @property
    def waiting(self) -> tuple[Change, ...]:
        """What no batch has taken yet."""
        return tuple(self._waiting)

    def put_back(self, changes: Sequence[Change]) -> None:
        """Changes of a reconfiguration that was taken back: before everything that waits."""
        self._waiting[:0] = changes

    def take(self, since: Topology) -> tuple[Change, ...]:
        """Everything that waits, folded; `since` is the topology before the first of them."""
        batch, self._waiting = fold(since, self._waiting), []
        return batch

    def __len__(self) -> int:
        return len(self._waiting)


def fold(topology: Topology, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Fewer changes that lead from `topology` to the same end."""
    changes = list(changes)
    kept: list[Change] = []
    start = 0
    for end, change in enumerate(changes):
        # Sites that come and go take links and devices with them; folding stays between such events.
        if isinstance(change, SiteAdded | SiteRemoved | SiteFailed):
            kept.extend(_fold_run(topology, changes[start:end]))
            kept.append(change)
            topology = apply(topology, changes[start : end + 1])
            start = end + 1
    kept.extend(_fold_run(topology, changes[start:]))
    return tuple(kept)


def _fold_run(topology: Topology, changes: list[Change]) -> list[Change]:
    """Fold a run of changes in which no site comes or goes: for each thing compare only first and last."""
    if len(changes) < 2:
        return [change for change in changes if not _idle(topology, change)]
    after = apply(topology, changes)
    kept: list[Change] = []
    seen: set[Hashable] = set()
    for change in changes:
        thing = _thing(change)
        if thing not in seen:
            seen.add(thing)
            kept.extend(_net(topology, after, thing))
    return kept


def _thing(change: Change) -> Hashable:
    match change:
        case LinkAdded(link):
            return link.ends
        case LinkRemoved(a, b):
            return frozenset((a, b))
        case DeviceAdded(device):
            return ("device", device.id)
        case DeviceRemoved(device_id) | DeviceMoved(device_id, _):
            return ("device", device_id)
        case CapacityChanged(site, _):
            return ("cpu", site)
        case _:
            msg = f"{change} is not foldable"
            raise AssertionError(msg)


def _net(before: Topology, after: Topology, thing: Hashable) -> list[Change]:
    """The changes of one thing from one topology to the other."""
    if isinstance(thing, frozenset):
        return _net_link(before, after, thing)
    assert isinstance(thing, tuple)
    what, name = thing
    if what == "device":
        return _net_device(before, after, DeviceId(name))
    site = SiteId(name)
    return [] if before.sites[site].cpu == after.sites[site].cpu else [CapacityChanged(site, after.sites[site].cpu)]


def _net_link(before: Topology, after: Topology, ends: frozenset[SiteId]) -> list[Change]:
    old, new = before.links.get(ends), after.links.get(ends)
    if old == new:
        return []
    if new is None:
        a, b = sorted(ends)
        return [LinkRemoved(a, b)]
    return [LinkAdded(new)]


def _net_device(before: Topology, after: Topology, device: DeviceId) -> list[Change]:
    old, new = before.devices.get(device), after.devices.get(device)
    if old == new:
        return []
    if new is None:
        return [DeviceRemoved(device)]
    if old is None:
        return [DeviceAdded(new)]
    if (old.cpu, old.mbps, old.ms) != (new.cpu, new.mbps, new.ms):
        return [DeviceRemoved(device), DeviceAdded(new)]
    return [DeviceMoved(device, new.site)]


def _idle(topology: Topology, change: Change) -> bool:
    """Whether a change only says what is so already."""
    match change:
        case DeviceMoved(device, site):
            return topology.devices[device].site == site
        case CapacityChanged(site, cpu):
            return topology.sites[site].cpu == cpu
        case LinkAdded(link):
            return topology.links.get(link.ends) == link
        case _:
            return False
